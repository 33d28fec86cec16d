"""Sampling hyperparameters: Hamiltonian Monte Carlo, NUTS, committees."""
