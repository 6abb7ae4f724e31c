// OpenSSH keys and certificates: one strict reader for the signer (control plane) and the verifiers (servers). And the
// connections inside a session.
export * from './certificates.ts'
export * from './channels.ts'
export * from './ed25519-point.ts'
export * from './keys.ts'
export * from './wire.ts'
