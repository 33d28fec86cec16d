"""What answers requests: routes, their document, the guard before them, figures."""
