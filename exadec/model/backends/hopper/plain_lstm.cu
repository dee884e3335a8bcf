// Ordinary LSTMs, in one or two directions. This file is compiled after shared_parts.cu; read that file first.

constexpr int OWN_LENGTH = OWN + 8;
constexpr int COLUMNS = (OWN / 8 + WARPS - 1) / WARPS;

// The position a sequence reads at step t. Direction 1 reads from the last word to the first; padding is last in both.
__device__ inline int position(int t, int length, int direction) {
    return direction == 1 && t < length ? length - 1 - t : t;
}

// The row of P (4·HIDDEN, HIDDEN) for the block's n-th own gate; -1 for padding.
__device__ inline int own_row(int n, int block) {
    const int unit = block * UNITS + n % UNITS;
    return n < OWN && unit < HIDDEN ? n / UNITS * HIDDEN + unit : -1;
}

// In: given (N, B, T, 4, D); for each direction P (4D, D) and two biases (4D); initial h and c (B, D) if `started`;
// lengths (B); x (B, T, D), with a stride of `x_stride` between directions.
// Out, indexed by position: states (N, B, T, D), with x added if `residual`, and h before each step (N, B, T, D + 8),
// with ones in column D. Indexed by step: activations (N, B, T, 4, D) and cells (N, B, T, D). Each text's final state
// (N, B, D).
// The grid's second dimension is N, the number of directions.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) plain_forward(
    const bfloat* given, const float* P_0, const float* bias_0, const float* more_bias_0, const float* P_1,
    const float* bias_1, const float* more_bias_1, const float* first_h, const float* first_c, int started,
    const int* lengths, int batch, int steps, const bfloat* x, int x_stride, int residual, bfloat* states,
    bfloat* previous, bfloat* activations, float* cells, bfloat* last) {
    const int block = block_in_cluster(), first = blockIdx.x / CLUSTER * ROWS, direction = blockIdx.y;
    const float *P = direction ? P_1 : P_0, *bias = direction ? bias_1 : bias_0;
    const float* more_bias = direction ? more_bias_1 : more_bias_0;
    const long long words = (long long)direction * batch * steps;  // before this direction
    given += words * 4 * HIDDEN, activations += words * 4 * HIDDEN;
    states += words * HIDDEN, cells += words * HIDDEN, previous += words * (HIDDEN + 8);
    last += (long long)direction * batch * HIDDEN, x += (long long)direction * x_stride;

    bfloat* h = reinterpret_cast<bfloat*>(memory);              // twice (ROWS, WIDE): read one, write the other
    float* gates_shared = reinterpret_cast<float*>(h + 2 * ROWS * WIDE);  // (ROWS, OWN_LENGTH)
    float* own_bias = gates_shared + ROWS * OWN_LENGTH;         // (OWN)
    Mailbox mailbox(counters, 2, ROWS * PADDED * 2);

    auto tile = [](int i) { return warp() + WARPS * i; };
    word weights[COLUMNS][PADDED / 16][2];
    load_weights<PADDED, COLUMNS>(weights, tile, [&](int column, int k) {
        const int row = own_row(column, block);
        return row >= 0 && k < HIDDEN ? P[(long long)row * HIDDEN + k] : 0.0f;
    });
    for (int n = threadIdx.x; n < OWN; n += THREADS) {
        const int row = own_row(n, block);
        own_bias[n] = row >= 0 ? bias[row] + more_bias[row] : 0.0f;
    }
    float cell[ITEMS][4] = {};
    uint2 state[ITEMS] = {};
    int lengths_here[ITEMS];
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        lengths_here[n] = item.real ? lengths[item.sequence] : 0;
    }
    zero(h, 2 * ROWS * WIDE * 2);
    __syncthreads();
    if (started) {
        load_states(h, first_h, first, batch);
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const long long at = (long long)item.sequence * HIDDEN + item.unit;
            float value[4];
            load4(value, first_h + at);
            state[n] = pack4(value);
            load4(cell[n], first_c + at);
        }
    }
    meet();
    for (int t = 0; t < steps; t++) {
        uint2 input[ITEMS][4] = {}, added[ITEMS] = {};
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const long long at = (long long)item.sequence * steps + position(t, lengths_here[n], direction);
            if (residual) added[n] = load4(x + at * HIDDEN + item.unit);
            if (t >= lengths_here[n]) continue;
            UNROLL for (int gate = 0; gate < 4; gate++)
                input[n][gate] = load4(given + (at * 4 + gate) * HIDDEN + item.unit);
        }
        // A block sends the next h only after it has this h from all blocks, and they sent it after reading the
        // previous one. So two buffers suffice.
        if (t > 0) mailbox.await(t % 2);
        float sums[TILES][COLUMNS][4];
        multiply_rows<PADDED, COLUMNS>(sums, h + t % 2 * ROWS * WIDE, WIDE, weights);
        UNROLL for (int i = 0; i < COLUMNS; i++) {
            const int column = tile(i) * 8 + lane() % 4 * 2;
            if (column >= OWN) continue;
            UNROLL for (int m = 0; m < TILES; m++)
                UNROLL for (int half = 0; half < 2; half++)
                    *reinterpret_cast<float2*>(gates_shared + (m * 16 + half * 8 + lane() / 4) * OWN_LENGTH + column) =
                        make_float2(sums[m][i][2 * half], sums[m][i][2 * half + 1]);
        }
        __syncthreads();
        uint2 before[ITEMS];
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            before[n] = state[n];
            if (!item.exists) continue;
            if (t < lengths_here[n]) {
                float gates[4][4], value[4];
                UNROLL for (int gate = 0; gate < 4; gate++) {
                    float part[4], offset[4];
                    unpack(gates[gate], input[n][gate]);
                    load4(part, gates_shared + item.row * OWN_LENGTH + gate * UNITS + item.quad * 4);
                    load4(offset, own_bias + gate * UNITS + item.quad * 4);
                    UNROLL for (int i = 0; i < 4; i++) gates[gate][i] += part[i] + offset[i];
                }
                lstm_gates_forward(gates, cell[n], value);
                state[n] = pack4(value);
                UNROLL for (int gate = 0; gate < 4; gate++) input[n][gate] = pack4(gates[gate]);
            } else {
                state[n] = make_uint2(0, 0);
            }
            if (t + 1 < steps) broadcast(h + (t + 1) % 2 * ROWS * WIDE, item, state[n], mailbox, (t + 1) % 2);
        }
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const bool active = t < lengths_here[n];
            const long long to = (long long)item.sequence * steps + position(t, lengths_here[n], direction);
            bfloat* earlier = previous + to * (HIDDEN + 8);
            uint2 output = state[n];
            if (residual) {
                float sum[4], value[4];
                unpack(sum, state[n]);
                unpack(value, added[n]);
                UNROLL for (int i = 0; i < 4; i++) sum[i] += value[i];
                output = pack4(sum);
            }
            store4(states + to * HIDDEN + item.unit, output);
            store4(earlier + item.unit, active ? before[n] : make_uint2(0, 0));
            if (item.unit == 0) {
                store4(earlier + HIDDEN, make_uint2(0x3f80, 0));
                store4(earlier + HIDDEN + 4, make_uint2(0, 0));
            }
            if (!active) continue;
            if (t == lengths_here[n] - 1) store4(last + (long long)item.sequence * HIDDEN + item.unit, state[n]);
            const long long by_step = (long long)item.sequence * steps + t;
            store4(cells + by_step * HIDDEN + item.unit, cell[n]);
            UNROLL for (int gate = 0; gate < 4; gate++)
                store4(activations + (by_step * 4 + gate) * HIDDEN + item.unit, input[n][gate]);
        }
    }
    meet();  // no block may end while others could still write to it
}

// grads (N, B, T, D), those of the final states (N, B, D) if `has_last`, and the results of plain_forward
// -> grad_gates (N, B, T, 4, D) indexed by position; if `started`, gradients of the initial h and c (B, D)
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1) plain_backward(
    const bfloat* grads, const bfloat* grad_last, int has_last, const float* P_0, const float* P_1,
    const float* first_c, int started, const int* lengths, int batch, int steps, const bfloat* activations,
    const float* cells, bfloat* grad_gates, float* grad_h, float* grad_c) {
    const int block = block_in_cluster(), first = blockIdx.x / CLUSTER * ROWS, direction = blockIdx.y;
    const float* P = direction ? P_1 : P_0;
    const long long words = (long long)direction * batch * steps;
    grads += words * HIDDEN, cells += words * HIDDEN;
    activations += words * 4 * HIDDEN, grad_gates += words * 4 * HIDDEN;
    grad_last += (long long)direction * batch * HIDDEN;

    float* partials = reinterpret_cast<float*>(memory);            // twice (CLUSTER, ROWS, PARTIAL)
    bfloat* own = reinterpret_cast<bfloat*>(partials + 2 * PARTIALS);  // (ROWS, OWN_LENGTH)
    Mailbox mailbox(counters, 2, CLUSTER * ROWS * UNITS * 4);

    word weights[OUTPUTS][OWN / 16][2];
    load_weights<OWN, OUTPUTS>(weights, output_tile, [&](int column, int k) {
        const int row = own_row(k, block);
        return row >= 0 && column < HIDDEN ? P[(long long)row * HIDDEN + column] : 0.0f;
    });
    float grad_cell[ITEMS][4] = {}, after[ITEMS][4] = {};
    int lengths_here[ITEMS];
    zero(partials, 2 * PARTIALS * 4);
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        lengths_here[n] = item.real ? lengths[item.sequence] : 0;
        if (lengths_here[n] == steps)
            load4(after[n], cells + ((long long)item.sequence * steps + steps - 1) * HIDDEN + item.unit);
    }
    meet();
    for (int t = steps - 1; t >= 0; t--) {
        uint2 gates[ITEMS][4] = {}, grad_here[ITEMS] = {}, more_here[ITEMS] = {};
        float before[ITEMS][4] = {};
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (t > lengths_here[n] || !item.real) continue;
            const long long by_step = (long long)item.sequence * steps + t;
            if (t > 0)
                load4(before[n], cells + (by_step - 1) * HIDDEN + item.unit);
            else if (started)
                load4(before[n], first_c + (long long)item.sequence * HIDDEN + item.unit);
            if (t == lengths_here[n]) continue;
            const long long at = (long long)item.sequence * steps + position(t, lengths_here[n], direction);
            grad_here[n] = load4(grads + at * HIDDEN + item.unit);
            if (has_last && t == lengths_here[n] - 1)
                more_here[n] = load4(grad_last + (long long)item.sequence * HIDDEN + item.unit);
            UNROLL for (int gate = 0; gate < 4; gate++)
                gates[n][gate] = load4(activations + (by_step * 4 + gate) * HIDDEN + item.unit);
        }
        // A block sends its sums for the previous step only after it has the sums for this step from all blocks. So two
        // buffers suffice.
        const float* sums_before = partials + t % 2 * PARTIALS;
        if (t + 1 < steps) mailbox.await(t % 2);
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.exists) continue;
            if (t < lengths_here[n]) {
                float grad[4], more[4], values[4][4];
                unpack(grad, grad_here[n]);
                unpack(more, more_here[n]);
                UNROLL for (int i = 0; i < 4; i++) grad[i] += more[i];
                UNROLL for (int gate = 0; gate < 4; gate++) unpack(values[gate], gates[n][gate]);
                add_partials<CLUSTER>(grad, sums_before, 0, item.row, item.quad);
                lstm_gates_backward(values, grad, grad_cell[n], before[n], after[n]);
                UNROLL for (int gate = 0; gate < 4; gate++) gates[n][gate] = pack4(values[gate]);
            }
            UNROLL for (int i = 0; i < 4; i++) after[n][i] = before[n][i];
            UNROLL for (int gate = 0; gate < 4; gate++)
                store4(own + item.row * OWN_LENGTH + gate * UNITS + item.quad * 4, gates[n][gate]);
        }
        __syncthreads();
        float sums[TILES][OUTPUTS][4];
        multiply_rows<OWN, OUTPUTS>(sums, own, OWN_LENGTH, weights);
        scatter(sums, partials + (t + 1) % 2 * PARTIALS, block, mailbox, (t + 1) % 2);
        UNROLL for (int n = 0; n < ITEMS; n++) {
            const Item item(n, block, first, batch);
            if (!item.real) continue;
            const long long at = (long long)item.sequence * steps + position(t, lengths_here[n], direction);
            bfloat* to = grad_gates + at * 4 * HIDDEN + item.unit;
            UNROLL for (int gate = 0; gate < 4; gate++) store4(to + gate * HIDDEN, gates[n][gate]);
        }
    }
    mailbox.await(1);
    meet();  // no block may end while others could still write to it
    if (!started) return;
    UNROLL for (int n = 0; n < ITEMS; n++) {
        const Item item(n, block, first, batch);
        if (!item.real) continue;
        float grad[4] = {};
        add_partials<CLUSTER>(grad, partials + PARTIALS, 0, item.row, item.quad);
        store4(grad_h + (long long)item.sequence * HIDDEN + item.unit, grad);
        store4(grad_c + (long long)item.sequence * HIDDEN + item.unit, grad_cell[n]);
    }
}

// x (1 or N, B, T, E) times mask (N, B, E) -> (N, B, T, E); four values per thread. The grid's second dimension is N.
extern "C" __global__ void __launch_bounds__(THREADS) mask_inputs(
    const bfloat* x, int x_stride, const float* mask, int batch, int steps, int width, bfloat* masked) {
    const int number = blockIdx.x * THREADS + threadIdx.x, quads = width / 4, direction = blockIdx.y;
    if (number >= batch * steps * quads) return;
    const int row = number / quads, column = number % quads * 4;
    const long long at = (long long)row * width + column;
    float values[4], factors[4];
    unpack(values, load4(x + (long long)direction * x_stride + at));
    load4(factors, mask + ((long long)direction * batch + row / steps) * width + column);
    UNROLL for (int i = 0; i < 4; i++) values[i] *= factors[i];
    store4(masked + (long long)direction * batch * steps * width + at, pack4(values));
}

// Backward pass of `mask_inputs`: grad (N, B, T, E) times mask, plus `more` (N, B, T, E) if `residual`; summed over N if
// `shared`. The grid's second dimension is the first one of the result, N or 1.
extern "C" __global__ void __launch_bounds__(THREADS) unmask_gradients(
    const bfloat* grad, const float* mask, const bfloat* more, int residual, int shared, int batch, int steps,
    int width, bfloat* result) {
    const int number = blockIdx.x * THREADS + threadIdx.x, quads = width / 4;
    if (number >= batch * steps * quads) return;
    const int row = number / quads, column = number % quads * 4;
    const long long size = (long long)batch * steps * width, at = (long long)row * width + column;
    float sums[4] = {};
    for (int direction = blockIdx.y; direction < (shared ? 2 : blockIdx.y + 1); direction++) {
        float values[4], factors[4], added[4] = {};
        unpack(values, load4(grad + direction * size + at));
        load4(factors, mask + ((long long)direction * batch + row / steps) * width + column);
        if (residual) unpack(added, load4(more + direction * size + at));
        UNROLL for (int i = 0; i < 4; i++) sums[i] += values[i] * factors[i] + added[i];
    }
    store4(result + blockIdx.y * size + at, pack4(sums));
}
