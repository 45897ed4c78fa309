//! The native half of the Python package `range_reader`: a reader that blocks without holding up other
//! threads of Python, and that Ctrl-C interrupts.
//!
//! What makes it a file of Python (`io.RawIOBase`) is `package/range_reader/_file.py`; reading belongs
//! to the crate `range-reader`.

use std::io::{self, SeekFrom};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use range_reader::http::address::AddressPolicy;
use range_reader::http::{HeaderMap, HeaderName, HeaderValue, HttpConfig, Proxy};
use range_reader::{AsyncRangeReader, ReaderConfig, Url};
use tokio::io::{AsyncReadExt, AsyncSeekExt};
use tokio::runtime::{Builder, Runtime};

/// How often a call that waits for the server looks whether Python has a signal to handle.
const SIGNALS_EVERY: Duration = Duration::from_millis(100);
/// Bytes read at a time: what a server claims to have is not allocated before it comes.
const PIECE_BYTES: usize = 1 << 20;

/// A remote file and a position in it.
#[pyclass(frozen, module = "range_reader._native")]
struct Reader(Mutex<Option<File>>);

/// Fields are dropped in this order: connections before the runtime that watches their sockets.
struct File {
    reader: AsyncRangeReader,
    runtime: Runtime,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (url, headers, *, any_address, environment_proxies, roots_pem, timeout, window_bytes, look_back_bytes, learn))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python, which cannot be swapped")]
    fn new(
        url: &str,
        headers: Vec<(String, String)>,
        any_address: bool,
        environment_proxies: bool,
        roots_pem: Option<&str>,
        timeout: Option<f64>,
        window_bytes: Option<usize>,
        look_back_bytes: Option<usize>,
        learn: bool,
    ) -> PyResult<Self> {
        let wrong = |what: &str| PyValueError::new_err(what.to_owned());
        let url = Url::parse(url).map_err(|error| PyValueError::new_err(format!("url: {error}")))?;
        let mut http = HttpConfig { headers: fields(&headers)?, ..HttpConfig::default() };
        if any_address {
            http.addresses = AddressPolicy::Any;
        }
        if environment_proxies {
            http.proxy = Proxy::from_environment().map_err(|error| wrong(&error.to_string()))?;
        }
        if let Some(roots) = roots_pem {
            http.extra_roots_pem = roots.as_bytes().to_vec();
        }
        if let Some(seconds) = timeout {
            let timeout =
                Duration::try_from_secs_f64(seconds).map_err(|_| wrong("timeout: not in this range"))?;
            (http.connect_timeout, http.head_timeout, http.idle_timeout) = (timeout, timeout, timeout);
        }
        let default = ReaderConfig::default();
        let config = ReaderConfig {
            window_bytes: window_bytes.unwrap_or(default.window_bytes),
            look_back_bytes: look_back_bytes.unwrap_or(default.look_back_bytes),
            learn,
            ..default
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let reader = AsyncRangeReader::open(&url, http, config)?;
        Ok(Self(Mutex::new(Some(File { reader, runtime }))))
    }

    /// `size` bytes at the position, fewer only at the end of the file; all that is left if negative.
    #[pyo3(signature = (size = -1))]
    fn read<'py>(&self, py: Python<'py>, size: isize) -> PyResult<Bound<'py, PyBytes>> {
        let wanted = usize::try_from(size).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        while bytes.len() < wanted {
            let room = (wanted - bytes.len()).min(PIECE_BYTES);
            let before = bytes.len();
            self.wait(py, async |reader| reader.take(room as u64).read_buf(&mut bytes).await)?;
            if bytes.len() == before {
                break;
            }
        }
        Ok(PyBytes::new(py, &bytes))
    }

    /// Moves the position, and returns it.
    #[pyo3(signature = (offset, whence = 0))]
    fn seek(&self, py: Python<'_>, offset: i64, whence: u8) -> PyResult<u64> {
        let to = match whence {
            0 => {
                SeekFrom::Start(u64::try_from(offset).map_err(|_| PyValueError::new_err("before the start"))?)
            }
            1 => SeekFrom::Current(offset),
            2 => {
                let size = self.size(py)?.ok_or_else(|| {
                    io::Error::new(io::ErrorKind::Unsupported, "the server does not say how long the file is")
                })?;
                let position = size.checked_add_signed(offset);
                SeekFrom::Start(position.ok_or_else(|| PyValueError::new_err("before the start"))?)
            }
            _ => return Err(PyValueError::new_err("whence is none of 0, 1 and 2")),
        };
        self.wait(py, async |reader| reader.seek(to).await)
    }

    /// Bytes of the file; None if the server does not say it.
    fn size(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        self.wait(py, async |reader| reader.len().await)
    }

    /// Announces what will be read, as pairs of start and end.
    fn will_need(&self, ranges: Vec<(u64, u64)>) -> PyResult<()> {
        let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(start, end)| start..end).collect();
        self.open()?.as_mut().expect("it is open").reader.will_need(ranges);
        Ok(())
    }

    /// What reading has cost.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counters = self.open()?.as_ref().expect("it is open").reader.counters();
        let dict = PyDict::new(py);
        for (name, value) in [
            ("requests", counters.requests),
            ("connections", counters.connections),
            ("retries", counters.retries),
            ("bytes_received", counters.bytes_received),
            ("bytes_used", counters.bytes_used),
            ("bytes_skipped", counters.bytes_skipped),
            ("bytes_wasted", counters.bytes_wasted),
            ("bytes_buffered", counters.bytes_buffered),
            ("seeks", counters.seeks),
        ] {
            dict.set_item(name, value)?;
        }
        Ok(dict)
    }

    /// Closes connections.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let file = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(File { reader, runtime }) = file {
                drop(reader);
                runtime.shutdown_background();
            }
        });
    }
}

impl Reader {
    /// Runs `work` until it is done or Python raises (Ctrl-C). Other threads of Python run meanwhile.
    /// `work` is begun again each time signals have been looked at: dropping it has lost nothing.
    fn wait<T: Send>(
        &self,
        py: Python<'_>,
        mut work: impl AsyncFnMut(&mut AsyncRangeReader) -> io::Result<T> + Send,
    ) -> PyResult<T> {
        loop {
            let result = py.detach(|| {
                let mut file = self.open()?;
                let File { reader, runtime } = file.as_mut().expect("it is open");
                let waited =
                    runtime.block_on(async { tokio::time::timeout(SIGNALS_EVERY, work(reader)).await });
                waited.map_or(Ok(None), |result| result.map(Some).map_err(PyErr::from))
            })?;
            match result {
                Some(result) => return Ok(result),
                None => py.check_signals()?,
            }
        }
    }

    /// The file, which is open.
    fn open(&self) -> PyResult<MutexGuard<'_, Option<File>>> {
        let file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if file.is_none() {
            return Err(PyValueError::new_err("I/O operation on closed file"));
        }
        Ok(file)
    }
}

fn fields(headers: &[(String, String)]) -> PyResult<HeaderMap> {
    let mut fields = HeaderMap::new();
    for (name, value) in headers {
        let field = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        // The value may be a secret.
        let (name, value) = field.ok_or_else(|| PyValueError::new_err(format!("headers: {name}")))?;
        fields.append(name, value);
    }
    Ok(fields)
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::Reader;
}
