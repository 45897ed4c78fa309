//! Every legal width of every value is accepted, in any mixture; what follows the array is not
//! looked at.

use crate::common::{
    Number, Random, bits, boundaries, for_every_element, forms, headers, integer_forms, rounds,
};
use msgpack_array::Isa;

#[test]
fn each_form_of_each_boundary() {
    for_every_element!(each_form);
}

fn each_form<T: Number>() {
    for value in boundaries::<T>() {
        let forms = forms(value);
        assert!(!forms.is_empty());
        for form in forms {
            for count in [1, rounds(130, 3)] {
                check(&vec![value; count], &form.repeat(count));
            }
        }
    }
}

#[test]
fn as_many_forms_as_the_specification_has() {
    // (value, its forms)
    for (value, count) in
        [(0, 9), (127, 9), (128, 7), (255, 7), (256, 6), (-1, 5), (-33, 4), (-129, 3), (1 << 63, 1)]
    {
        assert_eq!(integer_forms(value).len(), count, "{value}");
    }
    assert_eq!(forms(1.0_f32).len(), 11);
    assert_eq!(forms(-0.0_f64).len(), 2, "no integer has a sign without a value");
    assert_eq!(forms(0.1_f64).len(), 1);
    assert_eq!(forms(f64::from_bits(0x7ff0_0000_2000_0000)).len(), 2, "a signalling NaN of a single");
}

#[test]
fn mixtures_of_forms() {
    for_every_element!(mixtures);
}

fn mixtures<T: Number>() {
    let mut random = Random::new();
    for _ in 0..rounds(150, 1) {
        let length = random.below(rounds(400, 10));
        let mut values: Vec<T> = random.any(length);
        let boundaries = boundaries::<T>();
        for value in &mut values {
            if random.below(3) == 0 {
                *value = boundaries[random.below(boundaries.len())];
            }
        }
        // Seldom, often and always another form than the shortest.
        let longer = [3, 50, 100][random.below(3)];
        let body: Vec<u8> = values
            .iter()
            .flat_map(|value| {
                let mut forms = forms(*value);
                let form = if random.below(100) < longer { random.below(forms.len()) } else { 0 };
                forms.swap_remove(form)
            })
            .collect();
        check(&values, &body);
    }
}

fn check<T: Number>(values: &[T], body: &[u8]) {
    for isa in Isa::available() {
        for header in headers(values.len() as u32) {
            let length = header.len() + body.len();
            for behind in [&[][..], &[0xc1; 70]] {
                let input = [&header, body, behind].concat();
                let mut decoded = Vec::<T>::new();
                let used = msgpack_array::decode_into_with(isa, &input, &mut decoded);
                assert_eq!(used, Ok(length), "{isa:?} {} {input:02x?}", T::NAME);
                assert_eq!(bits(&decoded), bits(values), "{isa:?} {} {input:02x?}", T::NAME);
            }
        }
    }
}
