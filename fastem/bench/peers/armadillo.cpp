// EM for Gaussian mixtures by Armadillo, on request.
//
// The arguments are the kind of covariances (full or diag), the sizes N, D and K, a file with the
// rows as doubles, and one with the start: weights (K), means (K x D), and covariances (K x D x D)
// or variances (K x D). A line "run n" on standard input makes n iterations from the start and
// answers "done"; "score" answers with the mean log-likelihood of a row.

#include <armadillo>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>

static void fill(std::ifstream& file, double* values, arma::uword count) {
    file.read(reinterpret_cast<char*>(values), sizeof(double) * count);
    if (!file) {
        std::cerr << "a file is too short" << std::endl;
        std::exit(1);
    }
}

static void set_start(
    arma::gmm_full& model, const arma::mat& means, std::ifstream& file, const arma::rowvec& weights
) {
    arma::cube covariances(means.n_rows, means.n_rows, means.n_cols);
    fill(file, covariances.memptr(), covariances.n_elem);
    model.set_params(means, covariances, weights);
}

static void set_start(
    arma::gmm_diag& model, const arma::mat& means, std::ifstream& file, const arma::rowvec& weights
) {
    arma::mat variances(means.n_rows, means.n_cols);
    fill(file, variances.memptr(), variances.n_elem);
    model.set_params(means, variances, weights);
}

template <typename Model>
static int serve(char** arguments) {
    const arma::uword n = std::strtoull(arguments[2], nullptr, 10);
    const arma::uword d = std::strtoull(arguments[3], nullptr, 10);
    const arma::uword k = std::strtoull(arguments[4], nullptr, 10);
    arma::mat rows(d, n), means(d, k);
    arma::rowvec weights(k);
    std::ifstream row_file(arguments[5], std::ios::binary), start_file(arguments[6], std::ios::binary);
    fill(row_file, rows.memptr(), rows.n_elem);
    fill(start_file, weights.memptr(), k);
    fill(start_file, means.memptr(), means.n_elem);
    Model start;
    set_start(start, means, start_file, weights);
    Model model = start;
    std::string word;
    std::cout.precision(17);
    while (std::cin >> word) {
        if (word == "run") {
            arma::uword n_iterations = 0;
            std::cin >> n_iterations;
            model = start;
            const bool learned = n_iterations == 0
                || model.learn(rows, k, arma::eucl_dist, arma::keep_existing, 0, n_iterations,
                               1e-10, false);
            std::cout << (learned ? "done" : "failed") << std::endl;
        } else if (word == "score") {
            std::cout << model.avg_log_p(rows) << std::endl;
        }
    }
    return 0;
}

int main(int count, char** arguments) {
    if (count != 7) {
        std::cerr << "six arguments are expected" << std::endl;
        return 2;
    }
    if (std::string(arguments[1]) == "full") return serve<arma::gmm_full>(arguments);
    return serve<arma::gmm_diag>(arguments);
}
