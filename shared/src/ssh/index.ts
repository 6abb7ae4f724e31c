// OpenSSH keys and certificates: one strict reader for those who sign (control plane) and those who check (servers).
export * from './certificates.ts'
export * from './ed25519-point.ts'
export * from './keys.ts'
export * from './wire.ts'
