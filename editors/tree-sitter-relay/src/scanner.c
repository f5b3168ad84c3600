// What no regular expression reads: nested comments, the metadata section, and the characters
// whose meaning depends on what follows (`//`, `<`, `%`).

#include "tree_sitter/parser.h"

enum TokenType {
  LINE_COMMENT,
  BLOCK_COMMENT,
  FLOOR_DIVISION,
  TYPE_ANGLE,
  METADATA_TEXT,
  MODULO,
  ERROR_SENTINEL,
};

void *tree_sitter_relay_external_scanner_create(void) { return 0; }
void tree_sitter_relay_external_scanner_destroy(void *payload) { (void)payload; }
unsigned tree_sitter_relay_external_scanner_serialize(void *payload, char *buffer) {
  (void)payload;
  (void)buffer;
  return 0;
}
void tree_sitter_relay_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
  (void)payload;
  (void)buffer;
  (void)length;
}

static bool is_space(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f'; }
static bool is_letter(int32_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c > 127; }
static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }
static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }
static void blanks(TSLexer *lexer) {
  while (lexer->lookahead == ' ' || lexer->lookahead == '\t') advance(lexer);
}

static bool rest_of_line(TSLexer *lexer) {
  while (!lexer->eof(lexer) && lexer->lookahead != '\n') advance(lexer);
  lexer->mark_end(lexer);
  lexer->result_symbol = LINE_COMMENT;
  return true;
}

// Whether what follows a `#` is a header, whole or damaged (`#version = …]`): no comment. The same rule as
// the lexer's.
static bool begins_header(TSLexer *lexer) {
  if (lexer->lookahead == '[') return true;
  for (const char *c = "version"; *c; c++) {
    if (lexer->lookahead != *c) return false;
    advance(lexer);
  }
  blanks(lexer);
  return lexer->lookahead == '=';
}

// Whether what follows `//` after a dimension is a divisor: an operand, and on the same line something
// that can stand after it. The same rule as the lexer's.
static bool divides(TSLexer *lexer) {
  blanks(lexer);
  bool operand = false;
  while (is_letter(lexer->lookahead) || is_digit(lexer->lookahead) || lexer->lookahead == '.' ||
         lexer->lookahead == '%') {
    operand = true;
    advance(lexer);
  }
  if (lexer->lookahead == '(') {
    int depth = 0;
    do {
      if (lexer->lookahead == '(') depth++;
      if (lexer->lookahead == ')') depth--;
      advance(lexer);
    } while (depth > 0 && !lexer->eof(lexer) && lexer->lookahead != '\n');
    if (depth > 0) return false;
    operand = true;
  }
  if (!operand) return false;
  blanks(lexer);
  switch (lexer->lookahead) {
    case ',': case ')': case ']': case '+': case '-': case '*': case '%': case '/': return true;
    default: return false;
  }
}

// Whether a `<` that was read opens type arguments: only what types are made of up to its `>`, and an
// opening parenthesis after that.
static bool opens_types(TSLexer *lexer) {
  int depth = 1;
  int32_t last = 0;
  while (!lexer->eof(lexer)) {
    int32_t c = lexer->lookahead;
    if (c == '>') {
      if (last != '-') {
        depth--;
        if (depth == 0) {
          advance(lexer);
          while (is_space(lexer->lookahead)) advance(lexer);
          return lexer->lookahead == '(';
        }
      }
    } else if (c == '<') {
      if (last != 'n') return false;
      depth++;
    } else if (c == '%') {
      advance(lexer);
      if (is_letter(lexer->lookahead) || is_digit(lexer->lookahead)) return false;
      last = '%';
      continue;
    } else if (!is_letter(c) && !is_digit(c) && !is_space(c) && c != '.' && c != ',' && c != '(' &&
               c != ')' && c != '[' && c != ']' && c != ':' && c != '?' && c != '+' && c != '-' &&
               c != '*' && c != '/') {
      return false;
    }
    last = c;
    advance(lexer);
  }
  return false;
}

bool tree_sitter_relay_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
  (void)payload;
  if (valid[METADATA_TEXT] && !valid[ERROR_SENTINEL]) {
    while (!lexer->eof(lexer)) advance(lexer);
    lexer->mark_end(lexer);
    lexer->result_symbol = METADATA_TEXT;
    return true;
  }
  // Type arguments stand right after the name they belong to.
  if (lexer->lookahead == '<' && valid[TYPE_ANGLE] && !valid[ERROR_SENTINEL]) {
    advance(lexer);
    lexer->mark_end(lexer);
    lexer->result_symbol = TYPE_ANGLE;
    return opens_types(lexer);
  }
  while (is_space(lexer->lookahead)) lexer->advance(lexer, true);
  // A `%` right before a name or a number is the sigil of a variable.
  if (lexer->lookahead == '%' && valid[MODULO] && !valid[ERROR_SENTINEL]) {
    advance(lexer);
    lexer->mark_end(lexer);
    lexer->result_symbol = MODULO;
    return !is_letter(lexer->lookahead) && !is_digit(lexer->lookahead);
  }
  if (lexer->lookahead == '#') {
    advance(lexer);
    blanks(lexer);
    return !begins_header(lexer) && rest_of_line(lexer);
  }
  if (lexer->lookahead != '/') return false;
  advance(lexer);
  if (lexer->lookahead == '/') {
    advance(lexer);
    lexer->mark_end(lexer);
    if (valid[FLOOR_DIVISION] && !valid[ERROR_SENTINEL] && divides(lexer)) {
      lexer->result_symbol = FLOOR_DIVISION;
      return true;
    }
    return rest_of_line(lexer);
  }
  if (lexer->lookahead != '*') return false;
  advance(lexer);
  int depth = 1;
  while (depth > 0) {
    if (lexer->eof(lexer)) return false;
    int32_t c = lexer->lookahead;
    advance(lexer);
    if (c == '*' && lexer->lookahead == '/') {
      advance(lexer);
      depth--;
    } else if (c == '/' && lexer->lookahead == '*') {
      advance(lexer);
      depth++;
    }
  }
  lexer->mark_end(lexer);
  lexer->result_symbol = BLOCK_COMMENT;
  return true;
}
