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


def openblas():
    """OpenBLAS as it is loaded, asked for its version, kernels and threads: None if it is not there, or has other names."""
    import ctypes
    import glob
    import os

    package = os.path.dirname(np.__file__)
    paths = glob.glob(os.path.join(package + ".libs", "*openblas*")) + glob.glob(os.path.join(package, ".dylibs", "*openblas*"))
    try:
        with open("/proc/self/maps") as maps:
            paths += sorted({line.split()[-1] for line in maps if "openblas" in line})
    except OSError:
        pass
    for path in paths:
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for prefix in ("scipy_", ""):
            for suffix in ("64_", "_64", ""):
                try:
                    config = getattr(library, f"{prefix}openblas_get_config{suffix}")
                    core = getattr(library, f"{prefix}openblas_get_corename{suffix}")
                    threads = getattr(library, f"{prefix}openblas_get_num_threads{suffix}")
                except AttributeError:
                    continue
                config.restype = core.restype = ctypes.c_char_p
                name, version = config().decode().split()[:2]
                return f"{name} {version} {core().decode()}", threads()
    return None


np.matmul(np.ones((2, 2), np.float32), np.ones((2, 2), np.float32))
kernels, threads = openblas() or ("unknown", 0)
serve(f"{np.__version__} with {blas()}", kernels, threads, {"product": product})
