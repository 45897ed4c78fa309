//! Behaviour tests of `delivery`.

mod a_day;
