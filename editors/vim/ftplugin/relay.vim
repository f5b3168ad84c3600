" Settings for Relay and Relax texts.
if exists('b:did_ftplugin')
  finish
endif
let b:did_ftplugin = 1

setlocal commentstring=//\ %s comments=s1:/*,mb:*,ex:*/,://
setlocal shiftwidth=2 softtabstop=2 expandtab
setlocal suffixesadd=.relay
" relax-check's lines, for :make and the quickfix list.
setlocal makeprg=relax-check\ --format\ short\ %:S
setlocal errorformat=%f:%l:%c:\ %trror[%m,%f:%l:%c:\ %tarning[%m,%f:%l:%c:\ %tote[%m
" relax-fmt formats what it reads.
setlocal formatprg=relax-fmt\ -

let b:undo_ftplugin = 'setlocal commentstring< comments< shiftwidth< softtabstop< expandtab< suffixesadd< makeprg< errorformat< formatprg<'
