// msgpack-cxx, used in its quickest way: encoding by a packer into a buffer that stays, decoding by a visitor instead of a
// tree of objects that is converted afterwards. Errors are answered by the number of bytes or elements: 0.
#define MSGPACK_DEFAULT_API_VERSION 3
#include <msgpack.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

namespace {

template <typename T>
struct array_visitor : msgpack::null_visitor {
    T* out;
    T* end;

    array_visitor(T* out, size_t capacity) : out(out), end(out + capacity) {}

    bool push(T value) {
        if (out == end) return false;
        *out++ = value;
        return true;
    }
    bool visit_boolean(bool value) {
        return std::is_same<T, bool>::value && push(value);
    }
    bool visit_positive_integer(uint64_t value) {
        if (std::is_integral<T>::value && value > static_cast<uint64_t>(std::numeric_limits<T>::max())) return false;
        return push(static_cast<T>(value));
    }
    bool visit_negative_integer(int64_t value) {
        if (std::is_unsigned<T>::value) return false;
        if (std::is_integral<T>::value && value < static_cast<int64_t>(std::numeric_limits<T>::min())) return false;
        return push(static_cast<T>(value));
    }
    bool visit_float32(float value) {
        return std::is_floating_point<T>::value && push(static_cast<T>(value));
    }
    bool visit_float64(double value) {
        return std::is_floating_point<T>::value && push(static_cast<T>(value));
    }
};

template <typename T>
size_t encode(msgpack::sbuffer& buffer, const T* values, size_t count) {
    buffer.clear();
    msgpack::packer<msgpack::sbuffer> packer(buffer);
    packer.pack_array(static_cast<uint32_t>(count));
    for (size_t index = 0; index < count; ++index) packer.pack(values[index]);
    return buffer.size();
}

template <typename T>
size_t decode(const char* bytes, size_t length, T* out, size_t capacity) {
    array_visitor<T> visitor(out, capacity);
    if (!msgpack::parse(bytes, length, visitor)) return 0;
    return static_cast<size_t>(visitor.out - out);
}

}  // namespace

#define FUNCTIONS(name, type)                                                                                  \
    extern "C" size_t cxx_encode_##name(msgpack::sbuffer* buffer, const type* values, size_t count) {           \
        return encode(*buffer, values, count);                                                                  \
    }                                                                                                           \
    extern "C" size_t cxx_decode_##name(const char* bytes, size_t length, type* out, size_t capacity) {         \
        return decode(bytes, length, out, capacity);                                                            \
    }

FUNCTIONS(i8, int8_t)
FUNCTIONS(i16, int16_t)
FUNCTIONS(i32, int32_t)
FUNCTIONS(i64, int64_t)
FUNCTIONS(u8, uint8_t)
FUNCTIONS(u16, uint16_t)
FUNCTIONS(u32, uint32_t)
FUNCTIONS(u64, uint64_t)
FUNCTIONS(f32, float)
FUNCTIONS(f64, double)
FUNCTIONS(bool, bool)

extern "C" msgpack::sbuffer* cxx_buffer_new() { return new msgpack::sbuffer; }
extern "C" const char* cxx_buffer_data(const msgpack::sbuffer* buffer) { return buffer->data(); }
extern "C" void cxx_buffer_free(msgpack::sbuffer* buffer) { delete buffer; }
