// msgpack-array beside msgpack-cxx, through the C header: what one writes the other reads, and where MessagePack has one
// shortest form both write it. Every type, every instruction set of this machine, every length from 0 to 300 and those at
// which headers change, every boundary of widths, every part of an array.
//
// Prints one line a type and ends with status 0, or says what differs and ends with status 1.

#include "msgpack_array.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <msgpack.hpp>

namespace {

using Bytes = std::vector<std::uint8_t>;

[[noreturn]] void fail(const std::string &what)
{
    std::fprintf(stderr, "FAILED %s\n", what.c_str());
    std::exit(1);
}

template <typename T> struct Type;
#define TYPE(type, number, text)                                     \
    template <> struct Type<type> {                                  \
        static constexpr std::uint32_t id = MSGPACK_ARRAY_TYPE_##number; \
        static constexpr const char *name = text;                    \
    };
TYPE(bool, BOOL, "bool")
TYPE(std::int8_t, I8, "i8")
TYPE(std::int16_t, I16, "i16")
TYPE(std::int32_t, I32, "i32")
TYPE(std::int64_t, I64, "i64")
TYPE(std::uint8_t, U8, "u8")
TYPE(std::uint16_t, U16, "u16")
TYPE(std::uint32_t, U32, "u32")
TYPE(std::uint64_t, U64, "u64")
TYPE(float, F32, "f32")
TYPE(double, F64, "f64")

// std::vector<bool> has no memory to point to.
template <typename T> class Array {
public:
    explicit Array(std::size_t size) : elements_(new T[size + 1]()), size_(size) {}
    Array(const Array &other) : Array(other.size_) { std::copy_n(other.elements_.get(), size_, elements_.get()); }
    std::size_t size() const { return size_; }
    T *data() { return elements_.get(); }
    const T *data() const { return elements_.get(); }
    T &operator[](std::size_t index) { return elements_[index]; }
    const T &operator[](std::size_t index) const { return elements_[index]; }

private:
    std::unique_ptr<T[]> elements_;
    std::size_t size_;
};

std::mt19937_64 random_bits(20261122);

/// Numbers of every width, in no order.
template <typename T> T any_number()
{
    const std::uint64_t bits = random_bits() >> (random_bits() % 64);
    if constexpr (std::is_same_v<T, bool>) {
        return bits & 1;
    } else if constexpr (std::is_floating_point_v<T>) {
        using Word = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
        const Word word = static_cast<Word>(random_bits());
        T value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    } else {
        const T value = static_cast<T>(bits);
        return std::is_signed_v<T> && (random_bits() & 1) ? static_cast<T>(-(value / 2) - 1) : value;
    }
}

/// The values around which the shortest form changes, as far as the type has them.
template <typename T> std::vector<T> edges()
{
    if constexpr (std::is_same_v<T, bool>) {
        return {false, true};
    } else if constexpr (std::is_floating_point_v<T>) {
        using Limits = std::numeric_limits<T>;
        return {T(0),          T(-0.0),          T(0.5),           T(-1.25),        Limits::infinity(), -Limits::infinity(),
                Limits::max(), Limits::lowest(), Limits::min(),    Limits::denorm_min(),
                Limits::quiet_NaN(), T(1),       T(-32),           T(65536),        T(16777216)};
    } else {
        std::vector<T> found;
        const __int128 one = 1;
        for (__int128 edge : {one * 0, one << 7, one << 8, one << 15, one << 16, one << 31, one << 32, one << 63, one << 64,
                              -(one << 5), -(one << 7), -(one << 15), -(one << 31), -(one << 63)}) {
            for (__int128 value = edge - 2; value <= edge + 1; value++) {
                if (value >= std::numeric_limits<T>::min() && value <= std::numeric_limits<T>::max()) {
                    found.push_back(static_cast<T>(value));
                }
            }
        }
        return found;
    }
}

/// Whether msgpack-cxx writes a float as a float: it makes integers of those that are whole.
template <typename T> bool stays_float(T value)
{
    if constexpr (std::is_floating_point_v<T>) {
        return !(value == std::trunc(value) && value >= -9223372036854775808.0 && value <= 18446744073709551615.0);
    } else {
        return true;
    }
}

template <typename T> Bytes packed_by_cxx(const Array<T> &array)
{
    msgpack::sbuffer buffer;
    msgpack::packer<msgpack::sbuffer> packer(buffer);
    packer.pack_array(static_cast<std::uint32_t>(array.size()));
    for (std::size_t i = 0; i < array.size(); i++) {
        packer.pack(array[i]);
    }
    const auto *bytes = reinterpret_cast<const std::uint8_t *>(buffer.data());
    return Bytes(bytes, bytes + buffer.size());
}

template <typename T> Bytes packed_by_us(std::uint32_t isa, const Array<T> &array)
{
    constexpr std::size_t canaries = 64;
    const std::size_t max = msgpack_array_max_encoded_len(Type<T>::id, array.size());
    Bytes out(max + canaries, 0xa5);
    std::size_t written = 0;
    if (msgpack_array_encode(isa, Type<T>::id, array.data(), array.size(), out.data(), max, &written) !=
        MSGPACK_ARRAY_STATUS_OK) {
        fail("encoding");
    }
    if (std::count(out.end() - canaries, out.end(), 0xa5) != canaries) {
        fail("encoding wrote behind its output");
    }
    out.resize(written);
    return out;
}

template <typename T> bool same_bits(const T &left, const T &right)
{
    return std::memcmp(&left, &right, sizeof left) == 0;
}

/// msgpack-cxx converts what it reads to T, and refuses what does not fit.
template <typename T> void check_cxx_reads(const std::string &what, const Bytes &packed, const Array<T> &array)
{
    const auto handle = msgpack::unpack(reinterpret_cast<const char *>(packed.data()), packed.size());
    const msgpack::object &object = handle.get();
    if (object.type != msgpack::type::ARRAY || object.via.array.size != array.size()) {
        fail(what + ": msgpack-cxx reads no array of that length");
    }
    for (std::size_t i = 0; i < array.size(); i++) {
        const msgpack::object &element = object.via.array.ptr[i];
        const T value = element.as<T>();
        // What it calls a float32 has been converted to a double, where a signalling NaN does not stay one.
        const bool is_nan = array[i] != array[i];
        if (is_nan ? value == value : !same_bits(value, array[i])) {
            fail(what + ": msgpack-cxx reads another element " + std::to_string(i));
        }
    }
}

template <typename T>
void check_we_read(const std::string &what, std::uint32_t isa, const Bytes &packed, const Array<T> &array)
{
    Array<T> back(array.size());
    msgpack_array_decoded decoded;
    const msgpack_array_status status = msgpack_array_decode(isa, Type<T>::id, packed.data(), packed.size(), back.data(),
                                                             back.size(), &decoded);
    if (status != MSGPACK_ARRAY_STATUS_OK || decoded.count != array.size() || decoded.bytes != packed.size()) {
        fail(what + ": status " + std::to_string(status) + ", element " + std::to_string(decoded.index));
    }
    for (std::size_t i = 0; i < array.size(); i++) {
        // As an integer, which msgpack-cxx makes of it, zero has no sign.
        if (!same_bits(back[i], array[i]) && !(back[i] == array[i] && array[i] == T(0))) {
            fail(what + ": we read another element " + std::to_string(i));
        }
    }
}

template <typename T> void check(std::uint32_t isa, const Array<T> &array)
{
    const std::string what = std::string(Type<T>::name) + ", instruction set " + std::to_string(isa) + ", " +
                             std::to_string(array.size()) + " elements";
    const Bytes ours = packed_by_us(isa, array), theirs = packed_by_cxx(array);
    const bool all_stay = std::all_of(array.data(), array.data() + array.size(), stays_float<T>);
    if (all_stay && ours != theirs) {
        fail(what + ": the bytes differ");
    }
    check_cxx_reads(what, ours, array);
    check_we_read(what, isa, ours, array);
    check_we_read(what, isa, theirs, array);
}

/// Each part of an array of msgpack-cxx's ends before the array does.
template <typename T> void check_truncated(std::uint32_t isa, const Array<T> &array)
{
    const Bytes packed = packed_by_cxx(array);
    Array<T> back(array.size());
    for (std::size_t length = 0; length < packed.size(); length++) {
        // Memory of just that length, so that a tool that watches it sees what is read behind its end.
        const Bytes part(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(length));
        if (msgpack_array_decode(isa, Type<T>::id, part.data(), part.size(), back.data(), back.size(), nullptr) !=
            MSGPACK_ARRAY_STATUS_TRUNCATED) {
            fail(std::string(Type<T>::name) + ": a part is not truncated");
        }
    }
}

template <typename T> Array<T> array_of(std::size_t length, bool floats_stay)
{
    Array<T> array(length);
    for (std::size_t i = 0; i < length; i++) {
        do {
            array[i] = any_number<T>();
        } while (floats_stay && !stays_float(array[i]));
    }
    return array;
}

template <typename T> void check_type()
{
    unsigned arrays = 0, sets = 0;
    for (std::uint32_t isa = MSGPACK_ARRAY_ISA_SCALAR; isa <= MSGPACK_ARRAY_ISA_NEON; isa++) {
        if (!msgpack_array_isa_is_available(isa)) {
            continue;
        }
        sets++;
        for (std::size_t length = 0; length <= 300; length++, arrays++) {
            check(isa, array_of<T>(length, true));
        }
        for (std::size_t length : {15, 16, 65535, 65536}) {
            check(isa, array_of<T>(length, length % 2 == 0));
            arrays++;
        }
        const std::vector<T> all = edges<T>();
        Array<T> in_turn(all.size());
        std::copy(all.begin(), all.end(), in_turn.data());
        check(isa, in_turn);
        for (T edge : all) {
            Array<T> one(70);
            std::fill_n(one.data(), one.size(), edge);
            check(isa, one);
            arrays++;
        }
        check_truncated(isa, array_of<T>(100, false));
    }
    std::printf("ok msgpack-cxx and %s: %u arrays, %u instruction sets\n", Type<T>::name, arrays, sets);
}

/// For msgpack-cxx a vector of bytes is a bin.
void check_bin()
{
    for (std::size_t length : {0, 1, 255, 256, 65535, 65536}) {
        const Array<std::uint8_t> array = array_of<std::uint8_t>(length, true);
        const std::vector<unsigned char> bytes(array.data(), array.data() + length);
        msgpack::sbuffer buffer;
        msgpack::pack(buffer, bytes);
        Bytes out(length + 5);
        std::size_t written = 0;
        const auto status = msgpack_array_encode_bin(bytes.data(), length, out.data(), out.size(), &written);
        if (status != MSGPACK_ARRAY_STATUS_OK || written != buffer.size() || std::memcmp(out.data(), buffer.data(), written)) {
            fail("bin: the bytes differ");
        }
        const std::uint8_t *payload = nullptr;
        msgpack_array_decoded decoded;
        const auto *theirs = reinterpret_cast<const std::uint8_t *>(buffer.data());
        if (msgpack_array_decode_bin(theirs, buffer.size(), &payload, &decoded) != MSGPACK_ARRAY_STATUS_OK ||
            decoded.count != length || (length && std::memcmp(payload, bytes.data(), length))) {
            fail("bin: we read other bytes");
        }
    }
    std::printf("ok msgpack-cxx and bin\n");
}

} // namespace

int main()
{
    check_type<bool>();
    check_type<std::int8_t>();
    check_type<std::int16_t>();
    check_type<std::int32_t>();
    check_type<std::int64_t>();
    check_type<std::uint8_t>();
    check_type<std::uint16_t>();
    check_type<std::uint32_t>();
    check_type<std::uint64_t>();
    check_type<float>();
    check_type<double>();
    check_bin();
    return 0;
}
