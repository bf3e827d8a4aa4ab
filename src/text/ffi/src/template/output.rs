//! Where a template writes: a buffer with a limit on size and time.

use std::io;
use std::time::Instant;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    Bytes,
    Time,
}

pub struct Limited {
    bytes: Vec<u8>,
    bytes_max: usize,
    deadline: Instant,
    stop: Option<Stop>,
}

impl Limited {
    pub fn new(bytes_max: usize, deadline: Instant) -> Self {
        Limited { bytes: vec![], bytes_max, deadline, stop: None }
    }

    /// Why a write was refused.
    pub fn stop(&self) -> Option<Stop> {
        self.stop
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl io::Write for Limited {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() > self.bytes_max - self.bytes.len() {
            self.stop = Some(Stop::Bytes);
        } else if Instant::now() > self.deadline {
            self.stop = Some(Stop::Time);
        }
        if self.stop.is_some() {
            return Err(io::Error::other("limit"));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
