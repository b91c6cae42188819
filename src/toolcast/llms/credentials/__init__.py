"""Where the keys and tokens of the services come from: options, environment, AWS, Google."""
