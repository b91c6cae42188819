"""Shell commands for permissions: a lexer, a parser, launchers of other programs, patterns of rules."""
