// Code shared by the plain and the adaptive LSTM. plain_lstm.cu or adaptive_lstm.cu is compiled after this file. One
// launch runs all time steps.
//
// A cluster of CLUSTER blocks processes ROWS sequences. The recurrent weights are read once, rounded to bfloat16, and
// stay on the chip. Each block keeps its share in registers, or partly in shared memory if SHARED_WEIGHTS is set because
// registers are too few. Blocks exchange data through distributed shared memory. Products are bfloat16 with float32
// sums; cell states and gates are float32.
//
// Block b of a cluster owns UNITS hidden units: their gates and their cell state. In the adaptive recurrence it also owns
// NARROW columns of z = Vᵀh of one gate: the blocks form a grid of (4 gates) × (CLUSTER / 4 parts of the rank).
//
//   plain forward        gates = P h           each block has all of h, computes its own units, sends its h to all
//   plain backward       dh = Pᵀ dgates        each block has its own dgates, sends partial sums to the units' owners
//   adaptive forward     gates = U (λ ⊙ Vᵀh)   first product as in plain forward, second as in plain backward
//   adaptive backward    the same with U and V swapped: dgates in, λ ⊙ Uᵀdgates between, dh out
//
// Compiled for one set of sizes: HIDDEN, RANK (adaptive only), CLUSTER, UNITS, NARROW, ROWS, SHARED_WEIGHTS.

#define UNROLL _Pragma("unroll")

typedef unsigned int word;
typedef unsigned short bfloat;  // the bits of a bfloat16

constexpr int THREADS = 256, WARPS = 8;
constexpr int PADDED = CLUSTER * UNITS;
constexpr int QUADS = UNITS / 4;  // groups of 4 hidden units; a thread handles one at a time
constexpr int ITEMS = (ROWS * QUADS + THREADS - 1) / THREADS;
constexpr int TILES = ROWS / 16;
constexpr int OWN = 4 * UNITS;                 // gates of a block's own units
constexpr int PARTS = CLUSTER / 4;             // blocks for each gate (adaptive only)
constexpr int WIDE = PADDED + 8;               // row stride in shared memory, padded to avoid bank conflicts
constexpr int PARTIAL = UNITS + 8;
constexpr int PARTIALS = CLUSTER * ROWS * PARTIAL;
constexpr int OUTPUTS = (PADDED / 8 + WARPS - 1) / WARPS;  // tiles of 8 columns per warp in the second product

// ------------------------------------------------------------------------------------------------------- instructions

__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }

__device__ inline int block_in_cluster() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Barrier across the cluster. Expensive: it also waits for all writes to global memory.
__device__ inline void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ inline word shared_address(const void* pointer) { return (word)__cvta_generic_to_shared(pointer); }

__device__ inline word address_in(word address, int block) {
    word result;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(block));
    return result;
}

// Buffers ("places") in shared memory that other blocks fill, each at most once per step, with an mbarrier each. `open`
// sets how many bytes to expect, `send` counts the bytes it writes, and `await` returns when all have arrived. Unlike
// `meet`, this does not wait for global memory.
// A buffer may be filled again once every block has read it; comments in the kernels say why that holds.
struct Mailbox {
    word counters, bytes, phases;  // an 8-byte mbarrier and a phase bit for each place

    __device__ Mailbox(void* memory, int places, int bytes_expected)
        : counters(shared_address(memory)), bytes(bytes_expected), phases(0) {
        if (threadIdx.x != 0) return;
        for (int place = 0; place < places; place++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(counters + 8 * place) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int place = 0; place < places; place++) open(place);
    }

    __device__ void open(int place) const {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(counters + 8 * place), "r"(bytes)
                     : "memory");
    }

    __device__ void await(int place = 0) {
        word done = 0;
        while (!done)
            asm volatile(
                "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2; selp.u32 %0, 1, 0, done; }"
                : "=r"(done)
                : "r"(counters + 8 * place), "r"(phases >> place & 1)
                : "memory");
        phases ^= 1 << place;
        if (threadIdx.x == 0) open(place);
    }

    // Writes to the same address in another block's shared memory.
    __device__ void send(word address, int block, uint4 value, int place = 0) const {
        const word to = address_in(address, block), counter = address_in(counters + 8 * place, block);
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];"
                     :
                     : "r"(to), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(counter)
                     : "memory");
    }
};

__device__ inline void load_tile(word (&tile)[4], word address) {  // four 8 × 8 matrices, one row address per lane
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(tile[0]), "=r"(tile[1]), "=r"(tile[2]), "=r"(tile[3])
                 : "r"(address)
                 : "memory");
}

__device__ inline void multiply(float (&sums)[4], const word (&a)[4], word b0, word b1) {  // (16 × 16) by (16 × 8)
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline word pack(float low, float high) {
    word result;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
    return result;
}

__device__ inline float low_half(word pair) { return __uint_as_float(pair << 16); }
__device__ inline float high_half(word pair) { return __uint_as_float(pair & 0xffff0000u); }

__device__ inline void unpack(float (&values)[4], uint2 packed) {
    values[0] = low_half(packed.x), values[1] = high_half(packed.x);
    values[2] = low_half(packed.y), values[3] = high_half(packed.y);
}

__device__ inline uint2 pack4(const float (&values)[4]) {
    return make_uint2(pack(values[0], values[1]), pack(values[2], values[3]));
}

__device__ inline uint2 load4(const bfloat* pointer) { return *reinterpret_cast<const uint2*>(pointer); }
__device__ inline void store4(bfloat* pointer, uint2 value) { *reinterpret_cast<uint2*>(pointer) = value; }

__device__ inline void load4(float (&values)[4], const float* pointer) {
    const float4 loaded = *reinterpret_cast<const float4*>(pointer);
    values[0] = loaded.x, values[1] = loaded.y, values[2] = loaded.z, values[3] = loaded.w;
}

__device__ inline void store4(float* pointer, const float (&values)[4]) {
    *reinterpret_cast<float4*>(pointer) = make_float4(values[0], values[1], values[2], values[3]);
}

// Two adjacent threads swap halves, so that each can send 16 bytes at a time: `own` and the other thread's `given_away`,
// with the even thread's half first.
__device__ inline uint4 pair_up(uint2 own, uint2 given_away) {
    const word x = __shfl_xor_sync(~0u, given_away.x, 1), y = __shfl_xor_sync(~0u, given_away.y, 1);
    return lane() % 2 ? make_uint4(x, y, own.x, own.y) : make_uint4(own.x, own.y, x, y);
}

__device__ inline float sigmoid(float x) { return __fdividef(1.0f, 1.0f + __expf(-x)); }
__device__ inline float hyperbolic_tangent(float x) { return 2.0f * sigmoid(2.0f * x) - 1.0f; }

// ------------------------------------------------------------------------------------------------------- products

// Load weights as operands of `multiply`: `element(column, k)` for COUNT tiles of 8 columns. The warp's i-th is `tile(i)`.
template <int K, int COUNT, class Tile, class Element>
__device__ inline void load_weights(word (&weights)[COUNT][K / 16][2], Tile tile, Element element) {
    UNROLL for (int i = 0; i < COUNT; i++)
        UNROLL for (int k = 0; k < K / 16; k++)
            UNROLL for (int half = 0; half < 2; half++) {
                const int column = tile(i) * 8 + lane() / 4, row = k * 16 + half * 8 + lane() % 4 * 2;
                weights[i][k][half] = pack(element(column, row), element(column, row + 1));
            }
}

// rows (ROWS × K in shared memory, with a stride of `length` values) times weights from `load_weights`.
template <int K, int COUNT>
__device__ inline void multiply_rows(
    float (&sums)[TILES][COUNT][4], const bfloat* rows, int length, const word (&weights)[COUNT][K / 16][2]) {
    const word address = shared_address(rows) + (lane() % 16 * length + lane() / 16 * 8) * 2;
    constexpr int CHAINS = TILES * COUNT < 4 ? 2 : 1;  // independent accumulators, to hide latency
    float chains[CHAINS][TILES][COUNT][4] = {};
    UNROLL for (int k = 0; k < K / 16; k++) {
        word a[TILES][4];
        UNROLL for (int m = 0; m < TILES; m++) load_tile(a[m], address + (m * 16 * length + k * 16) * 2);
        UNROLL for (int i = 0; i < COUNT; i++)
            UNROLL for (int m = 0; m < TILES; m++)
                multiply(chains[k % CHAINS][m][i], a[m], weights[i][k][0], weights[i][k][1]);
    }
    UNROLL for (int m = 0; m < TILES; m++)
        UNROLL for (int i = 0; i < COUNT; i++)
            UNROLL for (int j = 0; j < 4; j++)
                sums[m][i][j] = chains[0][m][i][j] + (CHAINS > 1 ? chains[CHAINS - 1][m][i][j] : 0);
}

// A warp's tiles of the second product are adjacent; `scatter` sends them to the blocks that own their units.
__device__ inline int output_tile(int i) { return warp() * OUTPUTS + i; }

__device__ inline void scatter(
    const float (&sums)[TILES][OUTPUTS][4], const float* partials, int block, const Mailbox& mailbox, int place = 0) {
    UNROLL for (int i = 0; i < OUTPUTS; i++) {
        const int column = output_tile(i) * 8 + lane() % 4 / 2 * 4;
        if (column >= PADDED) continue;
        UNROLL for (int m = 0; m < TILES; m++) {
            const float(&sum)[4] = sums[m][i];
            const uint2 upper = make_uint2(__float_as_uint(sum[0]), __float_as_uint(sum[1]));
            const uint2 lower = make_uint2(__float_as_uint(sum[2]), __float_as_uint(sum[3]));
            const uint4 four = pair_up(lane() % 2 ? lower : upper, lane() % 2 ? upper : lower);
            const int row = m * 16 + lane() % 2 * 8 + lane() / 4;
            const float* to = partials + (block * ROWS + row) * PARTIAL + column % UNITS;
            mailbox.send(shared_address(to), column / UNITS, four, place);
        }
    }
}

// Adds the partial sums of COUNT blocks, starting with block `first`.
template <int COUNT>
__device__ inline void add_partials(float (&values)[4], const float* partials, int first, int row, int quad) {
    UNROLL for (int source = 0; source < COUNT; source++) {
        float part[4];
        load4(part, partials + ((first + source) * ROWS + row) * PARTIAL + quad * 4);
        UNROLL for (int i = 0; i < 4; i++) values[i] += part[i];
    }
}

// ----------------------------------------------------------------------------------------------------- four units

// Four hidden units of one sequence, which the same thread handles in all steps.
struct Item {
    int row, quad;   // index among the cluster's rows, among the block's units
    int sequence, unit;  // index in the batch, in the layer
    bool exists, real;   // whether this thread has an i-th item; whether it lies in the batch and is not padding
    __device__ Item(int i, int block, int first, int batch) {
        const int number = threadIdx.x + i * THREADS;
        exists = number < ROWS * QUADS;
        row = number / QUADS, quad = number % QUADS;
        sequence = first + row, unit = block * UNITS + quad * 4;
        real = exists && sequence < batch && unit < HIDDEN;
    }
};

// LSTM gates, forward. In: gates before the non-linearities, previous cell. Out: gates after them (in place), cell, h.
__device__ inline void lstm_gates_forward(float (&gates)[4][4], float (&cell)[4], float (&state)[4]) {
    UNROLL for (int i = 0; i < 4; i++) {
        gates[0][i] = sigmoid(gates[0][i]);
        gates[1][i] = sigmoid(gates[1][i]);
        gates[2][i] = hyperbolic_tangent(gates[2][i]);
        gates[3][i] = sigmoid(gates[3][i]);
        cell[i] = gates[1][i] * cell[i] + gates[0][i] * gates[2][i];
        state[i] = gates[3][i] * hyperbolic_tangent(cell[i]);
    }
}

// LSTM gates, backward. In: gates after the non-linearities. Out: gradients before them (in place); updates grad_cell.
__device__ inline void lstm_gates_backward(
    float (&gates)[4][4], const float (&grad)[4], float (&grad_cell)[4], const float (&before)[4],
    const float (&after)[4]) {
    UNROLL for (int i = 0; i < 4; i++) {
        const float enter = gates[0][i], forget = gates[1][i], candidate = gates[2][i], leave = gates[3][i];
        const float squashed = hyperbolic_tangent(after[i]);
        const float dc = grad_cell[i] + grad[i] * leave * (1 - squashed * squashed);
        gates[0][i] = dc * candidate * enter * (1 - enter);
        gates[1][i] = dc * before[i] * forget * (1 - forget);
        gates[2][i] = dc * enter * (1 - candidate * candidate);
        gates[3][i] = grad[i] * squashed * leave * (1 - leave);
        grad_cell[i] = dc * forget;
    }
}

// Send a thread's four units and its neighbour's to the same place in all blocks, into rows of WIDE values.
__device__ inline void broadcast(
    const bfloat* rows, const Item& item, uint2 value, const Mailbox& mailbox, int place = 0) {
    constexpr int HALF = (CLUSTER + 1) / 2;
    const uint4 eight = pair_up(value, value);
    const word address = shared_address(rows + item.row * WIDE + item.unit / 8 * 8);
    UNROLL for (int i = 0; i < HALF; i++) {
        const int other = lane() % 2 * HALF + i;
        if (other < CLUSTER) mailbox.send(address, other, eight, place);
    }
}

__device__ inline void zero(void* memory, int bytes) {
    for (int i = threadIdx.x; i < bytes / 4; i += THREADS) static_cast<word*>(memory)[i] = 0;
}

// Load the initial h of all rows.
__device__ inline void load_states(bfloat* states, const float* first_states, int first, int batch) {
    for (int i = threadIdx.x; i < ROWS * PADDED / 2; i += THREADS) {
        const int row = i / (PADDED / 2), unit = i % (PADDED / 2) * 2, sequence = first + row;
        word value = 0;
        if (sequence < batch && unit < HIDDEN) {
            const float* h = first_states + (long long)sequence * HIDDEN + unit;
            value = pack(h[0], h[1]);
        }
        *reinterpret_cast<word*>(states + row * WIDE + unit) = value;
    }
}

extern __shared__ __align__(16) unsigned char memory[];
__shared__ __align__(8) unsigned long long counters[2];
