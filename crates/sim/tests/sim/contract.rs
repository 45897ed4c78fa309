use sim_worker::simulated::PROMISES;

#[test]
fn the_kernel_of_a_simulation_keeps_every_promise_of_net() {
    for (name, promise) in PROMISES {
        eprintln!("{name}");
        promise();
    }
}
