//! Keys of `[acme]`.

use crate::section::section;
use crate::value::ChallengeChoice;

section! {
    /// Certificates from an authority such as Let's Encrypt (ACME), ordered and renewed by the
    /// server, for HTTPS, RTMPS and RTSPS. See [certificates.md](certificates.md).
    Acme = "acme" {
        /// Names that certificates are ordered for, each entry a certificate of its own. An entry
        /// may hold several names, separated by spaces, that one certificate has. Empty: none is
        /// ordered.
        domains: Vec<String> = Vec::new(),
        cost "Turns RTMPS, RTSPS and HTTPS on. Authorities limit how many certificates a domain gets in \
            a week.";

        /// Whether you agree to the authority's terms of service, which its directory links to.
        accept_terms: bool = false,
        cost "Without it the server does not start if there are `domains`.";

        /// E-mail addresses that the authority may write to. They are sent when the account is
        /// made.
        contact: Vec<String> = Vec::new(),
        cost "None.";

        /// The authority's directory. To try things out, that of Let's Encrypt's staging
        /// environment: `https://acme-staging-v02.api.letsencrypt.org/directory`, whose limits are
        /// higher and whose certificates nobody trusts.
        directory: String = "https://acme-v02.api.letsencrypt.org/directory".to_owned(),
        cost "None.";

        /// How the authority sees that the names are this server's: `tls-alpn-01` by a connection
        /// to port 443, which must reach `https.listen`; `http-01` by a request to port 80, which
        /// must reach `http.listen`.
        challenge: ChallengeChoice = ChallengeChoice::TlsAlpn,
        cost "None.";

        /// Directory for the account, the private keys and the certificates. It is made, readable
        /// by the server alone. Needed with `domains`.
        state_dir: String = String::new(),
        cost "Without its files, a start orders all certificates again.";

        /// Key id of your account at the authority, if it wants one (external account binding).
        external_account_id: String = String::new(),
        cost "None.";

        /// HMAC key of that account, base64url as the authority gives it.
        external_account_key: String = String::new(), secret true,
        cost "None.";

        /// File that holds the HMAC key, in place of `external_account_key`.
        external_account_key_file: String = String::new(),
        cost "None.";

        /// File with PEM certificates that are trusted for HTTPS to the directory in addition to
        /// those of the system: that of a private authority.
        ca_file: String = String::new(),
        cost "Anyone with a key of these certificates can impersonate the authority.";

        /// How long before its end a certificate is renewed, at most half of its life. 0: a third
        /// of its life, or earlier if the authority suggests it.
        renew_before_days: i64 = 0, unit "days", range 0..=3_650,
        cost "The longer, the more orders, and the more time to mend what fails.";
    }
}
