"""The page of the service: tables, fits, models and streams, for a person with a browser."""
