[
  (function_definition)
  (operator_definition)
  (gradient_definition)
  (tensor_program)
  (closure)
  (block)
  (sequence)
  (clause)
  (for_loop)
  (while_loop)
] @local.scope

(parameter name: (local) @local.definition)
(gradient_definition result: (local) @local.definition)
(gradient_definition gradient: (local) @local.definition)
(let_statement name: (local) @local.definition)
(let_statement name: (graph) @local.definition)
(binding name: (local) @local.definition)
(graph_binding name: (graph) @local.definition)
(variable_pattern name: (local) @local.definition)
(for_loop variable: (local) @local.definition)
(allocation name: (local) @local.definition)
(free_variable name: (local) @local.definition)
(type_parameter name: (name) @local.definition)
(function_definition name: (global) @local.definition)
(tensor_program name: (global) @local.definition)

(local) @local.reference
(graph) @local.reference
(global) @local.reference
(type_name (name) @local.reference)
