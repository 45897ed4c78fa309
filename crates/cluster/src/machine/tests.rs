//! Machines on a directory of plain values, in virtual time: with delays, losses of the directory's memory,
//! standing still, and partitions, from seeds.

mod hostile;
mod rules;
mod swarm;
mod world;
