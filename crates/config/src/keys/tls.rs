//! Keys of `[tls]` and `[[tls.certificates]]`.

use crate::section::section;

section! {
    /// Certificates for RTMPS, RTSPS and HTTPS.
    Tls = "tls" {
        /// File with the certificate chain, PEM, own certificate first. Clients that ask for no name, or
        /// for one that no certificate has, get it.
        certificate: String = String::new(),
        cost "None; turns RTMPS, RTSPS and HTTPS on.";

        /// File with the private key of the certificate, PEM.
        key: String = String::new(),
        cost "None.";

        /// How often it is looked whether the files of certificates have changed; then they are read again,
        /// for connections from then on. Files that make no valid certificate change nothing. 0: only at a
        /// reload.
        check_seconds: i64 = 10, unit "s", range 0..=86_400,
        cost "Two calls of the system for each certificate.";

        /// Makes a new self-signed certificate at each start when no certificate is given. For
        /// trials: clients must be configured to accept it.
        self_signed: bool = false,
        cost "Clients cannot tell this server from a man in the middle.";

        /// Names and addresses in the self-signed certificate.
        self_signed_names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec(),
        cost "None.";
    }
}

section! {
    /// Further certificates: a client gets the one that has the name it asks for (SNI). Without
    /// `tls.certificate`, the first of them stands for it.
    CertificateFiles = "tls.certificates" {
        /// File with the certificate chain, PEM, own certificate first. Its names are those in it.
        certificate: String = String::new(),
        cost "None.";

        /// File with the private key of the certificate, PEM.
        key: String = String::new(),
        cost "None.";
    }
}
