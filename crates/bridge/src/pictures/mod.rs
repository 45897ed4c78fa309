//! Coded pictures: parameter sets, picture order, and which pictures can be left out.
