; Captures are those of Neovim; Helix and Emacs know them too.

(line_comment) @comment
(block_comment) @comment

[
  "def" "type" "data" "extern" "rel" "op" "grad" "prim_func" "let" "fn" "free_var" "alloc" "init" "kernel" "compute" "where"
] @keyword
["if" "else" "match" "match?" "case"] @conditional
["for" "while" "in" "parallel" "unroll" "vectorize"] @repeat
["ref" "ref_read" "ref_write" "shape" "match_shape" "match_cast" "dataflow" "grid"] @keyword

(version) @preproc
(metadata_header) @preproc
(meta_reference) @constant.macro

(local) @variable
(graph) @variable.builtin
(parameter name: (local) @parameter)
(variable_pattern name: (local) @parameter)
(global) @function
(function_definition name: (global) @function)
(tensor_program name: (global) @function)
(call function: (name) @function.call)
(call function: (global) @function.call)
(operator_definition name: (name) @function)
(gradient_definition operator: (name) @function)
(kernel_group kernel: (name) @function.builtin)
(gradient_definition result: (local) @parameter)
(gradient_definition gradient: (local) @parameter)

(type_name) @type
((type_name) @type.builtin
  (#match? @type.builtin "^(Tensor|Shape|Buffer|Object|bool|u?int[0-9]*|float[0-9]*|bfloat16)$"))
(type_definition name: (name) @type)
(relation_definition name: (name) @type)
(relation_clause name: (name) @type)
(type_parameter name: (name) @parameter)
(constructor name: (name) @constructor)
(typed_constructor name: (name) @constructor)
(constructor_pattern constructor: (name) @constructor)
((name) @constructor (#match? @constructor "^[A-Z]"))

(attribute key: (name) @property)
(attribute_parameter name: (name) @property)

(integer) @number
(float) @float
(field) @number
(boolean) @boolean
(string) @string
(wildcard) @constant.builtin
(hole) @constant.builtin
(unknown_dimension) @constant.builtin

["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" ":" "."] @punctuation.delimiter
[
  "=" "+=" "*=" "=>" "->" ":-" "+" "-" "*" "/" "<" "<=" ">" ">=" "==" "!=" "&&" "||"
  (modulo) (floor_division)
] @operator
