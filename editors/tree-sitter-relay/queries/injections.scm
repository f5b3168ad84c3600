((metadata_text) @injection.content
  (#set! injection.language "json"))

((line_comment) @injection.content
  (#set! injection.language "comment"))
((block_comment) @injection.content
  (#set! injection.language "comment"))
