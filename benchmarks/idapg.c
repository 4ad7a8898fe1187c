/* The iDAPG loop for f = (weight/2)|x|^2, g = l1|x|_1, h = |z - y|^2/(2 curvature), written for
 * speed: the yardstick of engine.py. Columns of A contiguous, rows of length p.
 *     v = lam + beta (lam - lam_prev),  x = argmin f + g + <A'v, .>,
 *     lam+ = prox(v - t (rho Cv + z - A x)), the prox that of (t/n) h*, the step t that of the agent.
 * ZEROED: sums of vectors start from zero instead of from their first term.
 * SIMD_DOT (with -fopenmp-simd): dot products may be reordered. */
#include <math.h>
#include <stdint.h>

#ifdef SIMD_DOT
#define SUM _Pragma("omp simd reduction(+ : s)")
#else
#define SUM
#endif

#ifdef ZEROED
#define FIRST(condition) 0
#else
#define FIRST(condition) (condition)
#endif

static inline double dot(const double *restrict a, const double *restrict b, int64_t p) {
    double s = 0.0;
    SUM for (int64_t k = 0; k < p; k++) s += a[k] * b[k];
    return s;
}

void idapg(int64_t n, int64_t p, const int64_t *restrict xptr, const double *restrict a,
           double weight, double l1, const double *restrict y, double curvature,
           const int64_t *restrict nptr, const int64_t *restrict nidx, const double *restrict nw,
           double *restrict x, double *restrict lam0, double *restrict lam1,
           double *restrict c0, double *restrict c1, const double *restrict z,
           const double *restrict step, double beta, double rho, double *restrict v,
           double *restrict ax, int64_t steps) {
    double *lam = lam0, *old = lam1, *c = c0, *cold = c1;
    for (int64_t it = 0; it < steps; it++) {
        for (int64_t i = 0; i < n; i++) {
            const double *restrict l = lam + i * p, *restrict ci = c + i * p;
            const double *restrict co = cold + i * p, *restrict zi = z + i * p;
            double *restrict lo = old + i * p;
            const double t = step[i], s = t / n, q = 1.0 / (1.0 + s * curvature);
            for (int64_t k = 0; k < p; k++) v[k] = l[k] + beta * (l[k] - lo[k]);
            if (!FIRST(xptr[i] < xptr[i + 1]))
                for (int64_t k = 0; k < p; k++) ax[k] = 0.0;
            for (int64_t j = xptr[i]; j < xptr[i + 1]; j++) {
                const double *restrict col = a + j * p;
                double r = -dot(col, v, p);
                double xj = r > l1 ? (r - l1) / weight : r < -l1 ? (r + l1) / weight : 0.0;
                x[j] = xj;
                if (FIRST(j == xptr[i]))
                    for (int64_t k = 0; k < p; k++) ax[k] = xj * col[k];
                else
                    for (int64_t k = 0; k < p; k++) ax[k] += xj * col[k];
            }
            for (int64_t k = 0; k < p; k++) {
                double cv = ci[k] + beta * (ci[k] - co[k]);
                double w = v[k] - t * (rho * cv + zi[k] - ax[k]);
                lo[k] = (w - s * y[k]) * q;
            }
        }
        double *swap = lam; lam = old; old = swap;
        swap = c; c = cold; cold = swap;
        for (int64_t i = 0; i < n; i++) {
            const double *restrict own = lam + i * p;
            double *restrict out = c + i * p;
            if (!FIRST(nptr[i] < nptr[i + 1]))
                for (int64_t k = 0; k < p; k++) out[k] = 0.0;
            for (int64_t e = nptr[i]; e < nptr[i + 1]; e++) {
                const double w = nw[e];
                const double *restrict other = lam + nidx[e] * p;
                if (FIRST(e == nptr[i]))
                    for (int64_t k = 0; k < p; k++) out[k] = w * (own[k] - other[k]);
                else
                    for (int64_t k = 0; k < p; k++) out[k] += w * (own[k] - other[k]);
            }
        }
    }
}
