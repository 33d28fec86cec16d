"""The numerical work behind losses: quadrature, tables, defaults by differences."""
