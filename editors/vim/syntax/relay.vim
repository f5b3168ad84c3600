" Vim syntax of Relay and Relax texts, for those without tree-sitter.
" Made from the lexer's token table by crates/lsp/tests/editor_grammars.rs.

if exists('b:current_syntax')
  finish
endif

syntax case match
syntax iskeyword @,48-57,_

syntax keyword relayKeyword let fn def if else type match extern free_var ref ref_read ref_write
syntax keyword relaySoftKeyword data rel op grad prim_func where case shape match_shape match_cast dataflow for while in alloc init kernel compute
syntax keyword relayConstant True False None
syntax keyword relayType Tensor Shape Buffer Object bool bfloat16
syntax match relayType /\<u\?int\d*\>/
syntax match relayType /\<float\d*\>/
syntax match relayConstructor /\<\u\w*\>/
syntax match relayNumber /\<\d\+\(\.\d*\)\?\([eE][+-]\?\d\+\)\?\(f\d*\|bf16\|[iu]\d\+\)\?\>/
syntax match relayNumber /\<\(inf\|nan\)\(f\(16\|64\)\?\|bf16\)\?\>/
syntax match relayOperator /\<\h\w*\(\/\w\+\)*\(\.\h\w*\(\/\w\+\)*\)*\ze\s*(/ contains=relayKeyword,relaySoftKeyword
syntax match relayAttribute /\<\h\w*\ze\s*=\([^=>]\|$\)/
syntax match relaySymbol /!=\|&&\|\*=\|+=\|->\|:-\|:=\|<=\|==\|=>\|>=\|||\|%\|\*\|+\|-\|\/\|<\|=\|>\|^/
syntax match relayLocal /%\h\w*\(\/\w\+\)*\(\(\.\d\+\)*\.\h\w*\)*/
syntax match relayGraph /%\d\+/
syntax match relayGlobal /@\h\w*\([\/.]\w\+\)*/
syntax match relayMeta /\<meta\s*\[[^]]*\]\s*\[\s*\d*\s*\]/
syntax match relayMeta /#\s*\[\s*version[^]]*\]/
syntax region relayMetadata start=/#\s*\[\s*metadata\s*\]/ end=/\%$/ fold
syntax region relayString start=/"/ skip=/\\./ end=/"/
syntax region relayString start=/'/ end=/'/ oneline
syntax match relayComment /\/\/.*$/ contains=@Spell
syntax match relayComment /#\(\s*\[\s*\(version\|metadata\)\)\@!.*$/ contains=@Spell
syntax region relayComment start=/\/\*/ end=/\*\// contains=relayComment,@Spell fold
syntax region relayBlock start=/{/ end=/}/ transparent fold

highlight default link relayKeyword Keyword
highlight default link relaySoftKeyword Keyword
highlight default link relayConstant Constant
highlight default link relayType Type
highlight default link relayConstructor Structure
highlight default link relayNumber Number
highlight default link relayOperator Function
highlight default link relayAttribute Label
highlight default link relayLocal Identifier
highlight default link relayGraph Identifier
highlight default link relayGlobal Function
highlight default link relaySymbol Operator
highlight default link relayMeta PreProc
highlight default link relayMetadata PreProc
highlight default link relayString String
highlight default link relayComment Comment

syntax sync minlines=200
let b:current_syntax = 'relay'
