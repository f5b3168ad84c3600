; Neovim's and Helix's captures.
[
  (block)
  (constructors)
  (match)
  (parameters)
  (arguments)
  (tuple)
  (parenthesized)
  (list)
] @indent @indent.begin

["}" ")" "]"] @outdent @indent.end @indent.branch
