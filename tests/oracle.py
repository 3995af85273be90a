"""Independent twins: the problems of the TSVM written out literally for a general-purpose interior-point solver."""

import clarabel
import numpy as np
from scipy import sparse


def minimise_qp(quadratic, linear, inequality, bound, equality=None, value=None):
    """Minimise x'Qx/2 + c'x subject to A x <= b and E x = v."""
    matrices, bounds, cones = [], [], []
    if equality is not None:
        matrices.append(np.atleast_2d(equality))
        bounds.append(np.atleast_1d(value))
        cones.append(clarabel.ZeroConeT(len(bounds[0])))
    matrices.append(inequality)
    bounds.append(bound)
    cones.append(clarabel.NonnegativeConeT(len(bound)))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(quadratic)),
        np.asarray(linear, float),
        sparse.csc_matrix(np.vstack(matrices)),
        np.concatenate(bounds),
        cones,
        settings,
    )
    solution = solver.solve()
    return np.array(solution.x), solution.obj_val


def hinge_svm(X, y, cost, *, tilt=None, mean=None, r=None):
    """Minimise |w|²/2 + sum cost max(0, 1 - y f) + sum tilt f, maybe with w.mean + b = r. Returns w, b, objective."""
    n, m = X.shape
    tilt = np.zeros(n) if tilt is None else tilt
    quadratic = np.zeros((m + 1 + n, m + 1 + n))
    quadratic[:m, :m] = np.eye(m)
    features = np.hstack([X, np.ones((n, 1))])
    linear = np.concatenate([tilt @ features, cost])
    slack = -np.eye(n)
    inequality = np.vstack([np.hstack([-y[:, None] * features, slack]), np.hstack([np.zeros((n, m + 1)), slack])])
    bound = np.concatenate([-np.ones(n), np.zeros(n)])
    equality = None if r is None else np.concatenate([mean, [1.0], np.zeros(n)])
    x, objective = minimise_qp(quadratic, linear, inequality, bound, equality, r)
    return x[:m], x[m], objective


def literal_cccp(X_l, y, X_u, C, C_star, s=0.0, r=None, steps=100):
    """Collobert's procedure as printed: two copies of each unlabelled row, and beta from the concave part.

    Returns w, b and the objective (without constants) after each step. The bias of the start is whatever the solver
    returns, so compare on problems where it is unique.
    """
    u = len(X_u)
    w, b, _ = hinge_svm(X_l, y, np.full(len(y), C))
    X = np.vstack([X_l, X_u, X_u])
    labels = np.concatenate([y, np.ones(u), -np.ones(u)])
    cost = np.concatenate([np.full(len(y), C), np.full(2 * u, C_star)])
    copies = np.arange(len(labels)) >= len(y)
    beta, path = None, []
    for _ in range(steps):
        new = np.where(copies & (labels * (X @ w + b) < s), C_star, 0.0)
        if beta is not None and np.array_equal(new, beta):
            break
        beta = new
        w, b, _ = hinge_svm(X, labels, cost, tilt=beta * labels, mean=X_u.mean(axis=0), r=r)
        path.append(tsvm_objective(w, b, X_l, y, X_u, C, C_star, s))
    return w, b, path


def tsvm_objective(w, b, X_l, y, X_u, C, C_star, s=0.0):
    """J(w, b) of the paper's equation (1), capped at 1 + s."""
    hinges = np.maximum(0, 1 - y * (X_l @ w + b))
    margins = np.minimum(1 + s, np.maximum(0, 1 - np.abs(X_u @ w + b)))
    return 0.5 * w @ w + C * hinges.sum() + C_star * margins.sum()
