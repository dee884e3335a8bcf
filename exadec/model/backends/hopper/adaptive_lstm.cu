// The adaptive LSTM of the paper. It is compiled after shared_parts.cu; read that file first.

constexpr int NARROW_LENGTH = NARROW + 8;
constexpr int COLUMNS = (NARROW / 8 + WARPS - 1) / WARPS;

// `multiply_rows` with weights in shared memory, where each column is stored as a row of WIDE values. The warp's i-th
// tile is warp + 8i.
template <int K, int COUNT>
__device__ inline void multiply_rows_shared(
    float (&sums)[TILES][COUNT][4], const bfloat* rows, int length, const bfloat* weights) {
    const word address = shared_address(rows) + (lane() % 16 * length + lane() / 16 * 8) * 2;
    const word columns = shared_address(weights) + ((warp() * 8 + lane() % 8) * WIDE + lane() / 8 * 8) * 2;
    UNROLL for (int m = 0; m < TILES; m++)
        UNROLL for (int i = 0; i < COUNT; i++) sums[m][i][0] = sums[m][i][1] = sums[m][i][2] = sums[m][i][3] = 0;
    _Pragma("unroll 2") for (int k = 0; k < K / 32; k++) {
        word a[TILES][2][4];
        UNROLL for (int m = 0; m < TILES; m++) {
            load_tile(a[m][0], address + (m * 16 * length + k * 32) * 2);
            load_tile(a[m][1], address + (m * 16 * length + k * 32 + 16) * 2);
        }
        UNROLL for (int i = 0; i < COUNT; i++) {
            if ((warp() + WARPS * i) * 8 >= NARROW) continue;
            word b[4];  // 8 columns, 32 values of k
            load_tile(b, columns + (i * WARPS * 8 * WIDE + k * 32) * 2);
            UNROLL for (int m = 0; m < TILES; m++) {
                multiply(sums[m][i], a[m][0], b[0], b[1]);
                multiply(sums[m][i], a[m][1], b[2], b[3]);
            }
        }
    }
}

// The block's share of both factors, stored as (4, RANK, HIDDEN) each. Its columns all belong to one gate.
struct Factors {
    int gate, start;  // of the block's columns
#if SHARED_WEIGHTS
    const bfloat* first;
#else
    word first[COLUMNS][PADDED / 16][2];
#endif
    word second[OUTPUTS][NARROW / 16][2];

    __device__ static int tile(int i) { return warp() + WARPS * i; }

    __device__ Factors(const float* down, const float* up, bfloat* room, int block) {
        gate = block / PARTS, start = block % PARTS * NARROW;
        const int begin = start, end = RANK - start < NARROW ? RANK - start : NARROW;
        down += (long long)(gate * RANK + begin) * HIDDEN, up += (long long)(gate * RANK + begin) * HIDDEN;
#if SHARED_WEIGHTS
        for (int i = threadIdx.x; i < NARROW * PADDED / 2; i += THREADS) {
            const int column = i / (PADDED / 2), k = i % (PADDED / 2) * 2;
            const float* from = down + (long long)column * HIDDEN + k;
            const bool real = column < end && k < HIDDEN;
            *reinterpret_cast<word*>(room + column * WIDE + k) = real ? pack(from[0], from[1]) : 0;
        }
        first = room;
#else
        load_weights<PADDED, COLUMNS>(first, tile, [&](int column, int k) {
            return column < end && k < HIDDEN ? down[(long long)column * HIDDEN + k] : 0.0f;
        });
#endif
        load_weights<NARROW, OUTPUTS>(second, output_tile, [&](int column, int k) {
            return k < end && column < HIDDEN ? up[(long long)k * HIDDEN + column] : 0.0f;
        });
    }

    __device__ void apply_first(float (&sums)[TILES][COLUMNS][4], const bfloat* rows) const {
#if SHARED_WEIGHTS
        multiply_rows_shared<PADDED, COLUMNS>(sums, rows, WIDE, first);
#else
        multiply_rows<PADDED, COLUMNS>(sums, rows, WIDE, first);
#endif
    }
};

// λ (B, groups, RANK) of the block's columns -> (ROWS, NARROW_LENGTH) in shared memory
__device__ inline void load_coefficients(
    float* to, const float* lam, int groups, const Factors& factors, int first, int batch) {
    for (int i = threadIdx.x; i < ROWS * NARROW; i += THREADS) {
        const int row = i / NARROW, column = i % NARROW, rank = factors.start + column;
        const bool real = first + row < batch && rank < RANK;
        const long long at = ((long long)(first + row) * groups + (groups == 1 ? 0 : factors.gate)) * RANK + rank;
        to[row * NARROW_LENGTH + column] = real ? lam[at] : 0.0f;
    }
}

// Two adjacent columns of one row, among the sums of the first product.
struct Pair {
    int inside;  // in (ROWS, NARROW_LENGTH)
    bool exists;
    __device__ Pair(int m, int i, int half) {
        const int row = m * 16 + half * 8 + lane() / 4, column = Factors::tile(i) * 8 + lane() % 4 * 2;
        exists = column < NARROW;
        inside = row * NARROW_LENGTH + column;
    }
};

// Four adjacent columns of the block's share of (B, T, 4, RANK): the i-th chunk that a thread copies. Threads go along
// rows, so that accesses are coalesced.
constexpr int CHUNKS = (ROWS * NARROW / 4 + THREADS - 1) / THREADS;
struct Chunk {
    bool real;
    int inside;    // in (ROWS, NARROW_LENGTH)
    long long at;  // in (B, T, 4, RANK)
    __device__ Chunk(int i, int t, int steps, const Factors& factors, int first, int batch) {
        const int number = threadIdx.x + i * THREADS, row = number / (NARROW / 4), column = number % (NARROW / 4) * 4;
        real = row < ROWS && first + row < batch && factors.start + column < RANK;
        inside = row * NARROW_LENGTH + column;
        at = (((long long)(first + row) * steps + t) * 4 + factors.gate) * RANK + factors.start + column;
    }
};

// given (4, B, T, D), bias (4, B, D), initial h and c (B, D), V and U (4, R, D), λ (B, groups, R)
// -> states and previous (B, T, D), narrow and scaled (B, T, 4, R), activations (B, T, 4, D), cells (B, T, D)
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) adaptive_forward(
    const bfloat* given, const bfloat* bias, const float* first_h, const float* first_c, const float* V,
    const float* U, const float* lam, int groups, int batch, int steps,
    bfloat* states, bfloat* previous, bfloat* narrow, bfloat* scaled, bfloat* activations, float* cells) {
    const int block = block_in_cluster(), first = blockIdx.x / CLUSTER * ROWS;
    float* partials = reinterpret_cast<float*>(memory);                     // (CLUSTER, ROWS, PARTIAL)
    float* coefficients = partials + PARTIALS;                              // (ROWS, NARROW_LENGTH)
    bfloat* h = reinterpret_cast<bfloat*>(coefficients + ROWS * NARROW_LENGTH);  // (ROWS, WIDE)
    bfloat* unscaled = h + ROWS * WIDE;                                     // (ROWS, NARROW_LENGTH)
    bfloat* between = unscaled + ROWS * NARROW_LENGTH;                      // the same, scaled
    bfloat* own_bias = between + ROWS * NARROW_LENGTH;                      // (ROWS, OWN)
    Mailbox states_box(counters, 1, ROWS * PADDED * 2), partials_box(counters + 1, 1, CLUSTER * ROWS * UNITS * 4);
    const Factors factors(V, U, own_bias + ROWS * OWN, block);
    load_coefficients(coefficients, lam, groups, factors, first, batch);
    load_states(h, first_h, first, batch);
    float cell[ITEMS][4] = {};
    uint2 state[ITEMS] = {};
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        if (!item.exists) continue;
        UNROLL for (int gate = 0; gate < 4; gate++) {
            const long long from = ((long long)gate * batch + item.sequence) * HIDDEN + item.unit;
            const uint2 value = item.real ? load4(bias + from) : make_uint2(0, 0);
            store4(own_bias + item.row * OWN + gate * UNITS + item.quad * 4, value);
        }
        if (!item.real) continue;
        float value[4];
        load4(value, first_h + (long long)item.sequence * HIDDEN + item.unit);
        state[n] = pack4(value);
        load4(cell[n], first_c + (long long)item.sequence * HIDDEN + item.unit);
    }
    meet();
    for (int t = 0; t < steps; t++) {
        uint2 input[ITEMS][4] = {};
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            UNROLL for (int gate = 0; gate < 4; gate++) {
                const long long from = ((long long)gate * batch + item.sequence) * steps + t;
                input[n][gate] = load4(given + from * HIDDEN + item.unit);
            }
        }
        if (t > 0) states_box.await();
        __syncthreads();  // all threads have copied the results of the last step
        {
            float sums[TILES][COLUMNS][4];
            factors.apply_first(sums, h);
            UNROLL for (int i = 0; i < COLUMNS; i++)
                UNROLL for (int m = 0; m < TILES; m++)
                    UNROLL for (int half = 0; half < 2; half++) {
                        const Pair pair(m, i, half);
                        if (!pair.exists) continue;
                        const float low = sums[m][i][2 * half], high = sums[m][i][2 * half + 1];
                        const float2 factor = *reinterpret_cast<const float2*>(coefficients + pair.inside);
                        *reinterpret_cast<word*>(unscaled + pair.inside) = pack(low, high);
                        *reinterpret_cast<word*>(between + pair.inside) = pack(low * factor.x, high * factor.y);
                    }
        }
        __syncthreads();
        {
            float sums[TILES][OUTPUTS][4];
            multiply_rows<NARROW, OUTPUTS>(sums, between, NARROW_LENGTH, factors.second);
            scatter(sums, partials, block, partials_box);
        }
        UNROLL for (int i = 0; i < CHUNKS; i++) {
            const Chunk chunk(i, t, steps, factors, first, batch);
            if (!chunk.real) continue;
            store4(narrow + chunk.at, load4(unscaled + chunk.inside));
            store4(scaled + chunk.at, load4(between + chunk.inside));
        }
        partials_box.await();
        uint2 before[ITEMS];
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.exists) continue;
            before[n] = state[n];
            float gates[4][4], value[4];
            UNROLL for (int gate = 0; gate < 4; gate++) {
                unpack(gates[gate], input[n][gate]);
                float offset[4];
                unpack(offset, load4(own_bias + item.row * OWN + gate * UNITS + item.quad * 4));
                UNROLL for (int i = 0; i < 4; i++) gates[gate][i] += offset[i];
                add_partials<PARTS>(gates[gate], partials, gate * PARTS, item.row, item.quad);
            }
            lstm_gates_forward(gates, cell[n], value);
            state[n] = pack4(value);
            UNROLL for (int gate = 0; gate < 4; gate++) input[n][gate] = pack4(gates[gate]);
            if (t + 1 < steps) broadcast(h, item, state[n], states_box);
        }
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const long long to = (long long)item.sequence * steps + t;
            store4(states + to * HIDDEN + item.unit, state[n]);
            store4(previous + to * HIDDEN + item.unit, before[n]);
            store4(cells + to * HIDDEN + item.unit, cell[n]);
            UNROLL for (int gate = 0; gate < 4; gate++)
                store4(activations + (to * 4 + gate) * HIDDEN + item.unit, input[n][gate]);
        }
    }
    meet();  // no block may end while others could still write to it
}

// grad (B, T, D) and the results of adaptive_forward
// -> grad_gates (B, T, 4, D), grad_narrow (B, T, 4, R), grad_lam (B, 4, R), gradients of the initial h and c (B, D)
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) adaptive_backward(
    const bfloat* grads, const float* first_c, const float* V, const float* U, const float* lam, int groups, int batch,
    int steps, const bfloat* narrow, const bfloat* activations, const float* cells, bfloat* grad_gates,
    bfloat* grad_narrow, float* grad_lam, float* grad_h, float* grad_c) {
    const int block = block_in_cluster(), first = blockIdx.x / CLUSTER * ROWS;
    float* partials = reinterpret_cast<float*>(memory);                      // (CLUSTER, ROWS, PARTIAL)
    float* coefficients = partials + PARTIALS;                               // (ROWS, NARROW_LENGTH)
    float* grad_coefficients = coefficients + ROWS * NARROW_LENGTH;          // (ROWS, NARROW_LENGTH)
    bfloat* gates_shared = reinterpret_cast<bfloat*>(grad_coefficients + ROWS * NARROW_LENGTH);  // (ROWS, WIDE)
    bfloat* unscaled = gates_shared + ROWS * WIDE;                           // (ROWS, NARROW_LENGTH)
    bfloat* between = unscaled + ROWS * NARROW_LENGTH;                       // (ROWS, NARROW_LENGTH)
    Mailbox gates_box(counters, 1, ROWS * PADDED * 2), partials_box(counters + 1, 1, CLUSTER * ROWS * UNITS * 4);
    const Factors factors(U, V, between + ROWS * NARROW_LENGTH, block);
    load_coefficients(coefficients, lam, groups, factors, first, batch);
    zero(grad_coefficients, ROWS * NARROW_LENGTH * 4);
    zero(partials, PARTIALS * 4);
    float grad_cell[ITEMS][4] = {}, after[ITEMS][4] = {};
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        if (item.real) load4(after[n], cells + ((long long)item.sequence * steps + steps - 1) * HIDDEN + item.unit);
    }
    meet();
    for (int t = steps - 1; t >= 0; t--) {
        uint2 gates[ITEMS][4] = {}, grad_here[ITEMS] = {}, narrow_here[CHUNKS] = {};
        float before[ITEMS][4] = {};
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const long long from = (long long)item.sequence * steps + t;
            grad_here[n] = load4(grads + from * HIDDEN + item.unit);
            load4(before[n], t > 0 ? cells + (from - 1) * HIDDEN + item.unit
                                   : first_c + (long long)item.sequence * HIDDEN + item.unit);
            UNROLL for (int gate = 0; gate < 4; gate++)
                gates[n][gate] = load4(activations + (from * 4 + gate) * HIDDEN + item.unit);
        }
        UNROLL for (int i = 0; i < CHUNKS; i++) {
            const Chunk chunk(i, t, steps, factors, first, batch);
            if (chunk.real) narrow_here[i] = load4(narrow + chunk.at);
        }
        if (t + 1 < steps) partials_box.await();
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (item.real) {
                float grad[4], values[4][4];
                unpack(grad, grad_here[n]);
                UNROLL for (int gate = 0; gate < 4; gate++) unpack(values[gate], gates[n][gate]);
                add_partials<CLUSTER>(grad, partials, 0, item.row, item.quad);
                lstm_gates_backward(values, grad, grad_cell[n], before[n], after[n]);
                UNROLL for (int gate = 0; gate < 4; gate++) gates[n][gate] = pack4(values[gate]);
                UNROLL for (int i = 0; i < 4; i++) after[n][i] = before[n][i];
            }
            if (!item.exists) continue;
            const word address = shared_address(gates_shared + item.row * WIDE + item.unit / 8 * 8);
            UNROLL for (int i = 0; i < 2; i++) {  // even threads send two gates, odd threads the other two
                const bool odd = lane() % 2;
                const uint4 eight = pair_up(odd ? gates[n][2 + i] : gates[n][i], odd ? gates[n][i] : gates[n][2 + i]);
                UNROLL for (int part = 0; part < PARTS; part++)
                    gates_box.send(address, ((odd ? 2 : 0) + i) * PARTS + part, eight);
            }
        }
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            bfloat* to = grad_gates + ((long long)item.sequence * steps + t) * 4 * HIDDEN + item.unit;
            UNROLL for (int gate = 0; gate < 4; gate++) store4(to + gate * HIDDEN, gates[n][gate]);
        }
        UNROLL for (int i = 0; i < CHUNKS; i++) {
            const Chunk chunk(i, t, steps, factors, first, batch);
            if (chunk.inside < ROWS * NARROW_LENGTH) store4(unscaled + chunk.inside, narrow_here[i]);
        }
        gates_box.await();
        __syncthreads();  // `unscaled` is complete
        {
            float sums[TILES][COLUMNS][4];
            factors.apply_first(sums, gates_shared);
            UNROLL for (int i = 0; i < COLUMNS; i++)
                UNROLL for (int m = 0; m < TILES; m++)
                    UNROLL for (int half = 0; half < 2; half++) {
                        const Pair pair(m, i, half);
                        if (!pair.exists) continue;
                        const float low = sums[m][i][2 * half], high = sums[m][i][2 * half + 1];
                        const word value = *reinterpret_cast<const word*>(unscaled + pair.inside);
                        const float2 factor = *reinterpret_cast<const float2*>(coefficients + pair.inside);
                        float2* sum = reinterpret_cast<float2*>(grad_coefficients + pair.inside);
                        *sum = make_float2(sum->x + low * low_half(value), sum->y + high * high_half(value));
                        *reinterpret_cast<word*>(between + pair.inside) = pack(low * factor.x, high * factor.y);
                    }
        }
        __syncthreads();
        {
            float sums[TILES][OUTPUTS][4];
            multiply_rows<NARROW, OUTPUTS>(sums, between, NARROW_LENGTH, factors.second);
            scatter(sums, partials, block, partials_box);
        }
        UNROLL for (int i = 0; i < CHUNKS; i++) {
            const Chunk chunk(i, t, steps, factors, first, batch);
            if (chunk.real) store4(grad_narrow + chunk.at, load4(between + chunk.inside));
        }
    }
    partials_box.await();
    meet();  // no block may end while others could still write to it
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        if (!item.real) continue;
        float grad[4] = {};
        add_partials<CLUSTER>(grad, partials, 0, item.row, item.quad);
        store4(grad_h + (long long)item.sequence * HIDDEN + item.unit, grad);
        store4(grad_c + (long long)item.sequence * HIDDEN + item.unit, grad_cell[n]);
    }
    for (int i = threadIdx.x; i < ROWS * NARROW; i += THREADS) {
        const int row = i / NARROW, column = i % NARROW, rank = factors.start + column;
        const long long to = ((long long)(first + row) * 4 + factors.gate) * RANK + rank;
        if (first + row < batch && rank < RANK) grad_lam[to] = grad_coefficients[row * NARROW_LENGTH + column];
    }
}

// Backward pass of the scaling by λ, for all steps: grad_scaled (4, B, T, R), narrow (B, T, 4, R), λ (B, groups, R)
// -> grad_narrow (B, T, 4, R), grad_lam (B, 4, R). One block for each sequence and gate.
extern "C" __global__ void __launch_bounds__(THREADS) unscale(
    const bfloat* grad_scaled, const bfloat* narrow, const float* lam, int groups, int batch, int steps,
    bfloat* grad_narrow, float* grad_lam) {
    const int sequence = blockIdx.x / 4, gate = blockIdx.x % 4;
    for (int column = threadIdx.x * 2; column < RANK; column += THREADS * 2) {
        const float* factor = lam + ((long long)sequence * groups + (groups == 1 ? 0 : gate)) * RANK + column;
        float low = 0, high = 0;
        _Pragma("unroll 4") for (int t = 0; t < steps; t++) {
            const long long from = (((long long)gate * batch + sequence) * steps + t) * RANK + column;
            const long long to = (((long long)sequence * steps + t) * 4 + gate) * RANK + column;
            const word grad = *reinterpret_cast<const word*>(grad_scaled + from);
            const word value = *reinterpret_cast<const word*>(narrow + to);
            low += low_half(grad) * low_half(value), high += high_half(grad) * high_half(value);
            *reinterpret_cast<word*>(grad_narrow + to) = pack(low_half(grad) * factor[0], high_half(grad) * factor[1]);
        }
        float* sum = grad_lam + (long long)blockIdx.x * RANK + column;
        sum[0] = low, sum[1] = high;
    }
}
