# NumPy's matrix products, which are OpenBLAS's.
np = need("numpy")


def product(m, n, k, trans):
    rng = np.random.default_rng(0)

    def matrix(rows, cols, turned):
        shape = (cols, rows) if turned else (rows, cols)
        x = rng.standard_normal(shape, dtype=np.float32)
        return x.T if turned else x

    a, b = matrix(m, k, trans[0] == "T"), matrix(k, n, trans[1] == "T")
    c = np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=c)


def blas():
    try:
        found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
        return f"{found['name']} {found['version']}"
    except Exception:
        return "its BLAS"


serve(f"{np.__version__} with {blas()}", {"product": product})
