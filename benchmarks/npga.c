/* NPGA-ED for f = (weight/2)|x|^2, g = l1|x|_1, h = |z - y|^2/(2 curvature), written for
 * speed: the yardstick of npga.py. Columns of A contiguous, rows of length p.
 *     x+ = prox(x - alpha (weight x + A'lam)),  v = lam - s + beta A x+,
 *     s += m v,  lam = (v - m v - (beta/n) y) / (1 + beta curvature / n),
 * with (m v)_i the weighted sum of the differences to the neighbours.
 * SIMD_DOT (with -fopenmp-simd): dot products may be reordered. */
#include <stdint.h>

#ifdef SIMD_DOT
#define SUM _Pragma("omp simd reduction(+ : s)")
#else
#define SUM
#endif

static inline double dot(const double *restrict a, const double *restrict b, int64_t p) {
    double s = 0.0;
    SUM for (int64_t k = 0; k < p; k++) s += a[k] * b[k];
    return s;
}

void npga(int64_t n, int64_t p, const int64_t *restrict xptr, const double *restrict a,
          double weight, double l1, const double *restrict y, double curvature,
          const int64_t *restrict nptr, const int64_t *restrict nidx, const double *restrict nw,
          double *restrict x, double *restrict lam, double *restrict s, double *restrict v,
          double *restrict mv, double alpha, double beta, double power, int64_t steps) {
    const double t = beta / n, q = 1.0 / (1.0 + t * curvature), keep = 1.0 - alpha * weight;
    const double threshold = alpha * l1;
    for (int64_t it = 0; it < steps; it++) {
        for (int64_t i = 0; i < n; i++) {
            const double *restrict l = lam + i * p, *restrict si = s + i * p;
            double *restrict vi = v + i * p;
            for (int64_t j = xptr[i]; j < xptr[i + 1]; j++) {
                const double *restrict col = a + j * p;
                double u = keep * x[j] - alpha * dot(col, l, p);
                double xj = u > threshold ? u - threshold : u < -threshold ? u + threshold : 0.0;
                double f = beta * xj;
                x[j] = xj;
                if (j == xptr[i])
                    for (int64_t k = 0; k < p; k++) vi[k] = l[k] - si[k] + f * col[k];
                else
                    for (int64_t k = 0; k < p; k++) vi[k] += f * col[k];
            }
        }
        for (int64_t i = 0; i < n; i++) {
            const double *restrict own = v + i * p;
            double *restrict out = mv + i * p, *restrict si = s + i * p, *restrict l = lam + i * p;
            for (int64_t e = nptr[i]; e < nptr[i + 1]; e++) {
                const double w = power * nw[e];
                const double *restrict other = v + nidx[e] * p;
                if (e == nptr[i])
                    for (int64_t k = 0; k < p; k++) out[k] = w * (own[k] - other[k]);
                else
                    for (int64_t k = 0; k < p; k++) out[k] += w * (own[k] - other[k]);
            }
            for (int64_t k = 0; k < p; k++) {
                si[k] += out[k];
                l[k] = (own[k] - out[k] - t * y[k]) * q;
            }
        }
    }
}
