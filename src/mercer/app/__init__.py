"""The application: command line, tables and reports, over the public API only."""
