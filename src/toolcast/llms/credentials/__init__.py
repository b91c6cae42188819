"""The credentials of the services: keys and tokens from options, the environment, AWS and Google."""
