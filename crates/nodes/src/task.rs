//! Tasks of this crate.

use tokio::task::AbortHandle;

/// Exit code after a task has panicked, as after a worker: the panic message is on standard error.
pub(crate) const EXIT_PANIC: i32 = 101;

/// Starts a task. Half a server is worse than none: one that panics ends the process.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    let task = tokio::spawn(task);
    let handle = task.abort_handle();
    tokio::spawn(async move {
        if task.await.is_err_and(|error| error.is_panic()) {
            std::process::exit(EXIT_PANIC);
        }
    });
    handle
}
