"""Shell commands for permissions: a lexer, a parser, the argument forms of programs, patterns of rules."""
