/**
 * The text format of Relay and Relax for editors.
 *
 * It follows grammar/relay.lalrpop and what the layer before it settles (soft keywords, `<` as a bracket,
 * `//` as division). A test holds both against each other on every file of tests/ and examples/.
 */

const comma1 = (rule) => seq(rule, repeat(seq(',', rule)));
const comma0 = (rule) => optional(seq(comma1(rule), optional(',')));

// Words that are keywords only where the grammar asks for them: elsewhere they are names.
const SOFT = [
  'data', 'rel', 'op', 'grad', 'prim_func', 'where', 'case', 'shape', 'match_shape', 'match_cast', 'dataflow', 'for', 'in',
  'alloc', 'init', 'kernel', 'compute', 'grid', 'parallel', 'unroll', 'vectorize',
];
const named = ($) => choice($.name, alias(choice(...SOFT), $.name));

const PREC = {
  or: 4,
  and: 5,
  equality: 7,
  compare: 8,
  add: 10,
  multiply: 12,
  postfix: 20,
};

module.exports = grammar({
  name: 'relay',

  externals: ($) => [
    $.line_comment,
    $.block_comment,
    $.floor_division,
    $._type_angle,
    $.metadata_text,
    $.modulo,
    $._error_sentinel,
  ],

  extras: ($) => [/[ \t\r\n\f]/, $.line_comment, $.block_comment],

  word: ($) => $.name,

  supertypes: ($) => [$._expression, $._type, $._statement, $._item, $._pattern],

  conflicts: ($) => [
    [$.parameters, $._type_list],
    [$.source_file],
    [$._file_body],
    [$.relation_clause, $._expression],
    [$._expression, $.expression_statement],
    [$._expression, $.graph_binding],
    [$._expression, $._binder],
    [$.tuple_type, $.shape],
    [$.block, $._sequence],
    [$._expression, $.dotted_local],
    [$._expression, $._local],
    [$._expression, $.index_call],
    [$._value, $._index],
    [$.variable_pattern],
  ],

  rules: {
    source_file: ($) =>
      seq(
        // A header comes first, or before a part of the text.
        repeat(choice($.version, $._item)),
        optional(choice($._type_file, $._file_body)),
        repeat(choice($.version, $._item)),
        optional($.metadata),
      ),

    // Items.

    version: (_) => token(prec(30, /#[ \t]*\[[ \t]*version[ \t]*=[ \t]*"0\.0\.5"[ \t]*\]/)),
    metadata: ($) => seq(alias(token(prec(30, /#[ \t]*\[[ \t]*metadata[ \t]*\]/)), $.metadata_header), optional($.metadata_text)),

    _item: ($) =>
      choice(
        $.function_definition,
        $.metadata_definition,
        $.type_definition,
        $.relation_definition,
        $.relation_clause,
        $.operator_definition,
        $.gradient_definition,
        $.tensor_program,
      ),

    function_definition: ($) =>
      seq('def', field('name', $.global), $._signature, field('body', $.block), optional(';')),
    metadata_definition: ($) =>
      seq('def', field('name', $.global), '=', field('value', $.meta_reference), optional(';')),
    type_definition: ($) =>
      prec.right(
        seq(
          optional('extern'),
          choice('type', 'data'),
          field('name', $.name),
          optional($.type_parameters),
          optional($.constructors),
          optional(';'),
        ),
      ),
    constructors: ($) =>
      seq(
        '{',
        optional(choice(
          seq(comma1($.constructor), optional(',')),
          repeat1(seq($.typed_constructor, optional(','))),
        )),
        '}',
      ),
    constructor: ($) => seq(field('name', $.name), optional($._type_list)),
    typed_constructor: ($) => seq(field('name', $.name), ':', $._type_list, '->', field('type', $._type)),
    relation_definition: ($) =>
      prec.right(seq(
        'rel',
        field('name', $.name),
        $._type_list,
        optional(seq('->', field('result', $._type))),
        optional(seq('where', comma1($._goal))),
        optional(';'),
      )),
    relation_clause: ($) =>
      prec.right(seq(field('name', $.name), $._type_list, ':-', comma1($._goal), optional('.'), optional(';'))),
    _goal: ($) => choice($._type, $.goal),
    goal: ($) =>
      seq($._type, choice('=', '==', '!=', '<', '<=', '>', '>='), $._type),
    gradient_definition: ($) =>
      seq(
        'grad',
        field('operator', $.name),
        alias($.gradient_parameters, $.parameters),
        '->',
        '(',
        field('result', $._local),
        ',',
        field('gradient', $._local),
        optional(','),
        ')',
        field('body', $.block),
        optional(';'),
      ),
    operator_definition: ($) =>
      seq(
        'op',
        field('name', $.name),
        optional($.type_parameters),
        alias($.operator_parameters, $.parameters),
        optional(seq('->', field('result', $._type))),
        optional($.where_clause),
        field('body', alias($.computation, $.block)),
        optional(';'),
      ),
    computation: ($) => seq('{', repeat($._statement), optional(choice($.compute_tail, $._tail)), '}'),
    tensor_program: ($) =>
      seq('prim_func', field('name', $.global), $.parameters, field('body', $.block), optional(';')),

    // Signatures.

    _signature: ($) =>
      seq(
        optional($.type_parameters),
        $.parameters,
        optional(seq('->', field('result', $._type))),
        optional($.where_clause),
      ),
    where_clause: ($) => seq('where', comma1($._type)),
    type_parameters: ($) =>
      choice(
        seq('[', comma0($.type_parameter), ']'),
        seq(alias($._type_angle, '<'), comma0($.type_parameter), '>'),
        seq('<', comma0($.type_parameter), '>'),
      ),
    type_parameter: ($) => seq(field('name', $.name), optional(seq(':', field('kind', $.name)))),
    parameters: ($) => seq('(', comma0(choice($.parameter, $.attribute)), ')'),
    operator_parameters: ($) => seq('(', comma0(choice($.parameter, $.attribute_parameter, $.attribute)), ')'),
    parameter: ($) =>
      seq(field('name', $._local), optional($.binder_attributes), optional(seq(':', field('type', $._type)))),
    gradient_parameters: ($) =>
      seq('(', comma0(choice($.parameter, alias($.bare_attribute, $.attribute_parameter), $.attribute)), ')'),
    bare_attribute: ($) => field('name', named($)),
    attribute_parameter: ($) =>
      seq(field('name', named($)), ':', field('type', $._type), optional(seq('=', field('default', $._attribute_value)))),
    binder_attributes: ($) => seq('{', comma0($.attribute), '}'),
    attribute: ($) => seq(field('key', named($)), '=', field('value', $._attribute_value)),
    _attribute_value: ($) => choice($._expression, $.floor_quotient, $.attribute_map),
    // Attributes, or what TVM writes for a dictionary or set of its own.
    attribute_map: ($) => seq('{', comma0(choice($.attribute, $.entry, $.string)), '}'),
    entry: ($) => seq(field('key', $.string), choice('=', ':'), field('value', $._attribute_value)),

    // Sequences.

    _file_body: ($) => choice(seq(repeat1($._statement), optional($._tail)), $._tail),
    block: ($) => seq('{', repeat($._statement), optional($._tail), '}'),
    _tail: ($) => choice($._expression, $.block),
    _sequence: ($) => choice($._tail, $.sequence),
    sequence: ($) => seq(repeat1($._statement), $._tail),
    let_sequence: ($) => seq($.let_statement, repeat($._statement), $._tail),

    _statement: ($) =>
      choice(
        $.let_statement,
        $.binding,
        $.graph_binding,
        $.store,
        $.expression_statement,
        $.free_variable,
        $.dataflow,
        $.for_loop,
        $.while_loop,
        $.allocation,
        $.init,
        $.kernel_group,
        $.compute,
      ),
    _binder: ($) =>
      seq(
        field('name', choice($._local, $.graph)),
        optional($.binder_attributes),
        optional(seq(':', field('type', $._type))),
      ),
    let_statement: ($) => seq('let', $._binder, '=', field('value', $._let_value), ';'),
    // A name may end in numbers: `%x.1`. Where it is used, only its binder tells it from a projection.
    _local: ($) => choice($.local, alias($.dotted_local, $.local)),
    dotted_local: ($) => seq($.local, repeat1($.field)),
    _let_value: ($) => choice($._expression, $.block, alias($.inline_let, $.sequence)),
    inline_let: ($) => seq(choice($.let_statement, $.graph_binding), $._let_value),
    binding: ($) =>
      seq(
        field('name', $._local),
        optional(seq(':', field('type', $._type))),
        '=',
        field('value', $._let_value),
        ';',
      ),
    graph_binding: ($) =>
      seq(
        field('name', $.graph),
        optional(seq(':', field('type', $._type))),
        '=',
        field('value', $._let_value),
        ';',
      ),
    store: ($) =>
      choice(
        seq(field('target', choice($.index, $.tuple)), '=', field('value', $._expression), ';'),
        seq(field('target', choice($.index, $.local)), choice('+=', '*='), field('value', $._expression), ';'),
      ),
    // A branch ends with its block, where the rest shows that it is no operand.
    expression_statement: ($) => choice(seq(choice($._expression, $.block), ';'), prec.dynamic(-1, $.if)),
    free_variable: ($) =>
      seq('free_var', field('name', $._local), optional(seq(':', field('type', $._type))), ';'),
    dataflow: ($) => prec.right(seq('dataflow', field('body', $.block), optional(';'))),
    for_loop: ($) =>
      prec.right(seq(
        optional(field('mark', choice('parallel', 'unroll', seq('vectorize', '(', $.integer, ')')))),
        'for',
        comma1(field('variable', $.local)),
        'in',
        field('extent', choice($.grid, $._expression)),
        field('body', $.block),
        optional(';'),
      )),
    while_loop: ($) =>
      prec.right(seq('while', '(', field('condition', $._expression), ')', field('body', $.block), optional(';'))),
    grid: ($) => seq('grid', '(', comma0(choice($._dimension, $.local)), ')'),
    allocation: ($) => seq('alloc', field('name', $.local), ':', field('type', $._type), ';'),
    init: ($) => prec.right(seq('init', field('body', $.block), optional(';'))),
    // Stages of a tensor program that one kernel computes.
    kernel_group: ($) =>
      prec.right(seq('kernel', field('kernel', $.name), field('body', $.block), optional(';'))),
    compute: ($) => seq($._compute, ';'),
    compute_tail: ($) => $._compute,
    _compute: ($) =>
      prec.right(seq('compute', optional(seq(field('indices', $.list), '=>')), field('value', $._expression))),

    // Expressions.

    _expression: ($) =>
      choice(
        $.local,
        $.graph,
        $.global,
        $.name,
        // The operator. Among arguments the word could also be an attribute's key.
        alias('where', $.name),
        $.integer,
        $.float,
        $.negation,
        $.boolean,
        // An extent among attributes.
        $.unknown_dimension,
        $.string,
        $.meta_reference,
        $.unit,
        $.parenthesized,
        $.tuple,
        $.list,
        $.closure,
        $.if,
        $.match,
        $.reference,
        $.shape_value,
        $.match_shape,
        $.match_cast,
        $.call,
        $.projection,
        $.index,
        $.type_application,
        $.binary,
      ),

    negation: ($) => prec(PREC.postfix - 1, seq('-', choice($.integer, $.float, $.negation))),
    boolean: (_) => choice('True', 'False'),
    unit: (_) => seq('(', ')'),
    parenthesized: ($) => seq('(', $._sequence, ')'),
    tuple: ($) => seq('(', $._sequence, ',', comma0($._value), ')'),
    _value: ($) => choice($._expression, $.block, alias($.let_sequence, $.sequence)),
    list: ($) => seq('[', comma0($._attribute_value), ']'),

    closure: ($) => prec(PREC.postfix, seq('fn', $._signature, field('body', $.block))),
    if: ($) =>
      prec.right(seq(
        'if',
        '(',
        field('condition', $._sequence),
        ')',
        field('then', $.block),
        optional(seq('else', field('else', choice($.block, $.if)))),
      )),
    match: ($) =>
      seq(choice('match', alias(token(prec(2, /match[ \t]*\?/)), 'match?')), field('value', $._scrutinee), '{', optional($._clauses), '}'),
    _scrutinee: ($) => choice($.parenthesized, $.tuple, $.unit, $.local, $.graph, $.global, $.call, $.projection, $.name),
    _clauses: ($) =>
      seq(
        repeat(choice(
          seq($._closed_clause, optional(',')),
          seq(alias($.open_clause, $.clause), ','),
        )),
        choice(
          seq($._closed_clause, optional(',')),
          seq(alias($.open_clause, $.clause), optional(',')),
        ),
      ),
    _closed_clause: ($) => choice(alias($.closed_clause, $.clause), $.case),
    closed_clause: ($) => seq(field('pattern', $._pattern), '=>', field('body', $.block)),
    case: ($) => seq('case', field('pattern', $._pattern), field('body', $.block)),
    open_clause: ($) => seq(field('pattern', $._pattern), '=>', field('body', choice($._expression, $.sequence))),
    reference: ($) =>
      choice(
        seq('ref', '(', $._value, ')'),
        seq('ref_read', '(', $._value, ')'),
        seq('ref_write', '(', $._value, ',', $._value, optional(','), ')'),
      ),
    shape_value: ($) => seq('shape', '(', comma0($._dimension), ')'),
    match_shape: ($) => seq('match_shape', '(', $._value, ',', $.shape, optional(','), ')'),
    match_cast: ($) => seq('match_cast', '(', $._value, ',', $._type, optional(','), ')'),

    call: ($) =>
      prec.left(PREC.postfix, seq(field('function', $._expression), $.arguments)),
    arguments: ($) => seq('(', comma0(choice($._value, $.attribute)), ')'),
    projection: ($) =>
      prec.left(PREC.postfix, seq(field('tuple', $._expression), choice(field('field', $.field), seq('.', $.integer)))),
    field: (_) => token(/\.[0-9]+/),
    index: ($) => prec.left(PREC.postfix, seq(field('base', $._expression), '[', comma0($._index), ']')),
    _index: ($) => choice($._expression, $.floor_quotient, alias($.index_call, $.call)),
    index_call: ($) => seq(field('function', $.name), alias($.index_arguments, $.arguments)),
    index_arguments: ($) => seq('(', comma1($._index), optional(','), ')'),
    floor_quotient: ($) => prec.left(seq(choice($._expression, $.floor_quotient), $.floor_division, $._expression)),
    type_application: ($) =>
      prec.left(PREC.postfix, seq(field('function', $._expression), alias($._type_angle, '<'), comma0($._type), '>')),

    binary: ($) =>
      choice(
        ...[
          ['||', PREC.or],
          ['&&', PREC.and],
          ['==', PREC.equality],
          ['!=', PREC.equality],
          ['<', PREC.compare],
          ['<=', PREC.compare],
          ['>', PREC.compare],
          ['>=', PREC.compare],
          ['+', PREC.add],
          ['-', PREC.add],
          ['*', PREC.multiply],
          ['/', PREC.multiply],
          [$.modulo, PREC.multiply],
        ].map(([op, p]) =>
          prec.left(p, seq(field('left', $._expression), field('operator', op), field('right', $._expression))),
        ),
      ),

    // Patterns.

    _pattern: ($) => choice($.wildcard, $.variable_pattern, $.constructor_pattern, $.tuple_pattern),
    wildcard: (_) => '_',
    variable_pattern: ($) =>
      seq(field('name', $._local), optional($.binder_attributes), optional(seq(':', field('type', $._type)))),
    constructor_pattern: ($) => seq(field('constructor', $.name), optional(seq('(', comma0($._pattern), ')'))),
    tuple_pattern: ($) => seq('(', comma0($._pattern), ')'),

    // Types, shapes, dimensions.

    _type_file: ($) => prec(-1, seq(choice($.type_application_file, $.function_type), optional(';'))),
    type_application_file: ($) => prec.dynamic(1, seq(choice('Tensor', 'Shape', 'Buffer'), '[', comma0($._type_argument), ']')),

    _type: ($) =>
      choice(
        $.type_name,
        $.dimension_literal,
        $.hole,
        $.unknown_dimension,
        $.meta_reference,
        $.reference_type,
        $.tuple_type,
        $.rest,
        $.dimension_negation,
        $.type_apply,
        $.type_call,
        $.dimension_binary,
        $.function_type,
      ),
    type_name: ($) => choice($.name, 'True', 'False'),
    dimension_literal: ($) => $.integer,
    hole: (_) => '_',
    unknown_dimension: (_) => '?',
    reference_type: ($) => seq('ref', '(', $._type, ')'),
    tuple_type: ($) => seq('(', comma0($._dimension), ')'),
    shape: ($) => seq('(', comma0($._dimension), ')'),
    rest: ($) => prec(15, seq('*', $._type)),
    dimension_negation: ($) => prec(15, seq('-', $._type)),
    type_apply: ($) => prec.left(PREC.postfix, seq(field('head', $._type), '[', comma0($._type_argument), ']')),
    _type_argument: ($) => choice($._dimension, $.slice),
    slice: ($) => seq(optional($._type), ':', optional($._type)),
    type_call: ($) => prec.left(PREC.postfix, seq(field('head', $._type), $._type_list)),
    _type_list: ($) => seq('(', comma0($._dimension), ')'),
    dimension_binary: ($) =>
      choice(
        prec.left(PREC.add, seq($._type, choice('+', '-'), $._type)),
        prec.left(PREC.multiply, seq($._type, choice('*', $.modulo), $._type)),
      ),
    // Only inside brackets is `//` a division.
    _dimension: ($) => choice($._type, $.dimension_quotient),
    dimension_quotient: ($) =>
      prec.left(PREC.multiply, seq(choice($._type, $.dimension_quotient), $.floor_division, $._type)),
    function_type: ($) =>
      prec.right(seq(
        'fn',
        optional($.type_parameters),
        $._type_list,
        '->',
        field('result', $._type),
        optional(seq('where', $._type)),
      )),

    // Tokens.

    name: (_) =>
      /[A-Za-z_\p{L}\p{Nl}][A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]*(\/[A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]+)*([ \t]*\.[ \t]*[A-Za-z_\p{L}\p{Nl}][A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]*(\/[A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]+)*)*/,
    local: (_) =>
      /%[A-Za-z_\p{L}\p{Nl}][A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]*(\/[A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]+|::[A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]+|:[0-9]+|(\.[0-9]+)*\.[0-9]*[A-Za-z_\p{L}\p{Nl}][A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]*)*/,
    graph: (_) => /%[0-9]+/,
    global: (_) => /@[A-Za-z_\p{L}\p{Nl}][A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]*(([\/.]|::)[A-Za-z0-9_\p{L}\p{Nl}\p{M}\p{Nd}]+)*/,
    integer: (_) => /[0-9]+([iu](1|4|8|16|32|64))?/,
    float: (_) =>
      token(choice(
        /[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?(f(16|32|64)?|bf16)?/,
        /[0-9]+[eE][+-]?[0-9]+(f(16|32|64)?|bf16)?/,
        /[0-9]+(f(16|32|64)?|bf16)/,
        prec(1, choice('inf', 'inff', 'inff16', 'inff64', 'inf16', 'inf64', 'infbf16', 'nan', 'nanf', 'nanf16', 'nanf64', 'nanbf16')),
      )),
    string: (_) => token(choice(/"([^"\\]|\\[\s\S])*"/, /'[^'\n]*'/)),
    meta_reference: (_) => token(prec(20, /meta[ \t]*\[[^\]\n]*\][ \t]*\[[ \t]*[0-9]*[ \t]*\]/)),
  },
});
