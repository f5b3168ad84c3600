" Run by .ci/editors: opens a real file and looks at what is highlighted, and that :make finds places.
" vim -Nu NONE -n -es --cmd 'set rtp^=editors/vim' -S editors/vim/test.vim FILE

filetype plugin on
syntax on
edit
let s:wrong = []

" The group of the nth place where a pattern is found.
function s:Is(pattern, group) abort
  call cursor(1, 1)
  let l:at = searchpos(a:pattern, 'cW')
  let l:found = synIDattr(synID(l:at[0], l:at[1], 1), 'name')
  if l:at[0] == 0 || l:found !=# a:group
    call add(s:wrong, a:pattern . ' is ' . l:found . ', not ' . a:group)
  endif
endfunction

call s:Is('\<def\>', 'relayKeyword')
call s:Is('@main', 'relayGlobal')
call s:Is('%data', 'relayLocal')
call s:Is('%\d', 'relayGraph')
call s:Is('nn\.dense', 'relayOperator')
call s:Is('\<Tensor\>', 'relayType')
call s:Is('float32', 'relayType')
call s:Is('units', 'relayAttribute')
call s:Is('^//', 'relayComment')
call s:Is('#\[version', 'relayMeta')
if &filetype !=# 'relay' || &commentstring !=# '// %s'
  call add(s:wrong, 'the file type is ' . &filetype)
endif
let s:line = 'model.relay:3:7: error[RX0203]: there is no such operator'
let s:place = get(getqflist({'lines': [s:line], 'efm': &errorformat}).items, 0, {})
if get(s:place, 'lnum') != 3 || get(s:place, 'col') != 7 || get(s:place, 'type') !=? 'e'
  call add(s:wrong, 'an error is read as ' . string(s:place))
endif

if !empty(s:wrong)
  call writefile(s:wrong, '/dev/stderr')
  cquit
endif
qall!
