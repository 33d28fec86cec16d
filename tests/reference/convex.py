"""Support vector machines as quadratic programs, solved by a generic interior point method."""

import numpy as np


def quadratic_program(Q, p, A, b, upper, tol=1e-12, steps=200):
    """Minimise 1/2 x'Qx + p'x subject to A x = b and 0 <= x <= upper (may be inf).

    Primal-dual path following with dense Newton steps. Returns x (n,) and the multipliers nu of
    A x = b, with Q x + p = A' nu + zl - zu.
    """
    n, m = len(p), len(A)
    upper = np.broadcast_to(np.asarray(upper, dtype=float), n)
    u = np.flatnonzero(np.isfinite(upper))
    x = np.ones(n)
    x[u] = 0.5 * upper[u]
    room, nu, zl, zu = upper[u] - x[u], np.zeros(m), np.ones(n), np.ones(len(u))
    for _ in range(steps):
        mu = (zl @ x + zu @ room) / (n + len(u))
        dual = Q @ x + p - A.T @ nu - zl
        dual[u] += zu
        primal = b - A @ x
        if max(mu, np.abs(dual).max(), np.abs(primal).max(initial=0.0)) < tol:
            return x, nu
        aim = 0.1 * mu
        H = Q + np.diag(zl / x)
        H[u, u] += zu / room
        right = -dual + aim / x - zl
        right[u] -= aim / room - zu
        whole = np.block([[H, -A.T], [A, np.zeros((m, m))]])
        step = np.linalg.solve(whole, np.concatenate([right, primal]))
        dx, dnu = step[:n], step[n:]
        dzl = (aim - zl * dx) / x - zl
        dzu = (aim + zu * dx[u]) / room - zu
        values, changes = np.concatenate([x, zl, room, zu]), np.concatenate([dx, dzl, -dx[u], dzu])
        down = changes < 0
        size = min(1.0, 0.995 * np.min(-values[down] / changes[down], initial=np.inf))
        x, nu, zl, zu = x + size * dx, nu + size * dnu, zl + size * dzl, zu + size * dzu
        room = room - size * dx[u]
    raise AssertionError(f"no convergence: {mu:.1e} {np.abs(dual).max():.1e}")


def svc(K, y, C):
    """Return signed coefficients (n,) and offset of the C-machine with a free offset.

    max sum lam - 1/2 lam'TKT lam, 0 <= lam <= C, y'lam = 0; f = K (y lam) + b.
    """
    n = len(y)
    Q = y[:, None] * K * y
    lam, nu = quadratic_program(Q, -np.ones(n), y[None], np.zeros(1), C)
    # Q lam - 1 = nu y + ...: y_i f_i - 1 = 0 on free points gives b = -nu
    return y * lam, -nu[0]


def svc_without_offset(K, y, C):
    """Return signed coefficients of the C-machine without offset."""
    none = np.zeros((0, len(y)))
    return y * quadratic_program(y[:, None] * K * y, -np.ones(len(y)), none, np.zeros(0), C)[0]


def svr(K, y, C, epsilon):
    """Return c (n,) and offset: min 1/2 c'Kc - y'c + eps |c|_1, |c| <= C, sum c = 0."""
    n = len(y)
    Q = np.block([[K, -K], [-K, K]])
    p = np.concatenate([epsilon - y, epsilon + y])
    A = np.concatenate([np.ones(n), -np.ones(n)])[None]
    a, nu = quadratic_program(Q, p, A, np.zeros(1), np.tile(np.broadcast_to(C, n), 2))
    return a[:n] - a[n:], -nu[0]


def nu_svc(K, y, nu):
    """Return coefficients and offset scaled to margin one: 0 <= a <= 1/n, sum a = nu, y'a = 0."""
    n = len(y)
    A = np.vstack([y, np.ones(n)])
    Q = y[:, None] * K * y
    a, mult = quadratic_program(Q, np.zeros(n), A, np.array([0.0, nu]), 1.0 / n)
    rho = mult[1]  # y_i (K y a)_i = mult_0 y_i + rho on free points
    return y * a / rho, -mult[0] / rho


def nu_svr(K, y, C, nu):
    """Return c, offset and the width of the tube: sum (a + a*) = C nu n, sum (a - a*) = 0."""
    n = len(y)
    Q = np.block([[K, -K], [-K, K]])
    p = np.concatenate([-y, y])
    A = np.vstack([np.concatenate([np.ones(n), -np.ones(n)]), np.ones(2 * n)])
    a, mult = quadratic_program(Q, p, A, np.array([0.0, C * nu * n]), C)
    return a[:n] - a[n:], -mult[0], -mult[1]


def one_class(K, nu):
    """Return coefficients and offset of the one-class machine: 0 <= a <= 1, sum a = nu n."""
    n = len(K)
    a, mult = quadratic_program(K, np.zeros(n), np.ones((1, n)), np.array([nu * n]), 1.0)
    return a, -mult[0]
