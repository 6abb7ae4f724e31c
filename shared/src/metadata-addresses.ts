// Addresses at which clouds hand out the credentials of a machine. The control plane never connects to them, and code
// of an environment may not either. One list serves both.
export const METADATA_ADDRESSES = {
  v4: [
    '169.254.169.254', // AWS, Google, Azure, DigitalOcean, Hetzner, OpenStack
    '169.254.170.2', // AWS tasks
    '100.100.100.200', // Alibaba
    '192.0.0.192', // Oracle
  ],
  v6: [
    'fd00:ec2::254', // AWS
    'fd20:ce::254', // Google
  ],
} as const
