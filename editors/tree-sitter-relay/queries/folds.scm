[
  (block)
  (constructors)
  (match)
  (list)
  (arguments)
  (metadata)
  (block_comment)
] @fold
