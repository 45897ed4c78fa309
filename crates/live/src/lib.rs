//! Live streaming protocols as byte machines.
