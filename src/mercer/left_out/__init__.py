"""Leave-one-out figures and bounds."""
