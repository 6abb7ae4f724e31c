// SSH certificates, the sessions that they hold, and the authorities that sign them.
import type { Glossary } from './entries.ts'

const HOST_KEY =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampl berth-host'

export const SSH: Glossary = {
  operations: {
    postServerSsh: {
      says: 'Signs your public key for one purpose, one environment and one server, by default for five minutes, and answers where to connect. A session may outlast its certificate, but ends with your access.',
      also: 'That is enough for `logs` and `artifact`. `shell`, `forward` and `copy` in an environment need the permission `ssh`, and in a protected one its owner. `shell` without an environment needs `server:write`, and `shell_enabled` of the server.',
    },
    listServerSsh: {
      says: 'Lists the certificates that were issued for a server, newest first, page by page: holder, purpose, expiry. No key material is kept.',
    },
    deleteServerSsh: {
      says: 'Revokes a certificate and ends its sessions; the server confirms within seconds if it is connected. 202 means that the revocation is on its way.',
      also: 'Certificates of other people need the permission `server:write`.',
      answer: { status: 'revoked', revoked_at: '2026-11-15T09:15:00Z', revoke_reason: 'revoked' },
    },
    listSshSessions: {
      says: 'Lists your certificates that can begin a session now, or hold an open one, on all servers, newest first; at most 500, on one page. Revoke one by its `serial` to end its sessions.',
      also: '`everyone=true` needs the permission `audit:read`.',
    },
    listSshHostCa: {
      says: 'Lists the keys to trust as `@cert-authority` in a `known_hosts` file; two during a rotation.',
    },
    listAdminSshAuthorities: {
      says: 'Lists the keys that sign certificates of people and of servers, their phase in a rotation, and the servers that the next step waits for. Private keys are never shown.',
    },
    postAdminSshAuthorityAnnounce: {
      says: 'First step of a rotation: creates a key and publishes it to servers and clients; the present one still signs. Repeated, it answers the key that is already announced.',
      answer: { phase: 'announced', signing_at: null },
    },
    postAdminSshAuthorityAdopt: {
      says: 'Second step: signs with the announced key from now on; the former one stays published. It waits for servers that have not confirmed the key, unless `without` names them or `force` is true.',
      body: { without: ['fra-2'] },
    },
    postAdminSshAuthorityRetire: {
      says: 'Last step: publishes the former key no longer and destroys it. Refused while certificates that it signed are in use, unless `force` is true.',
      body: { force: false },
    },
  },
  fields: {
    '{serial}': ['The serial of the certificate, as the list shows it.', '4611686018427387904'],
    '{kind}': ['`user`: signs certificates of people. `host`: signs those of servers.', 'user'],

    'SshCertificateRequest.public_key': [
      'One line as in a `.pub` file: `ssh-ed25519` or `sk-ssh-ed25519@openssh.com`.',
      'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampl ada',
    ],
    purpose: [
      '`logs` and `artifact` read those of an environment, `shell` runs commands, `forward` opens a port, `copy` copies files. A request without it asks for `shell`.',
      'shell',
    ],
    'SshCertificateRequest.environment_id': [
      'The environment; required except for a shell on the whole server.',
      101,
    ],
    'SshCertificateRequest.ttl_seconds': [
      'Seconds in which sessions can begin, 60 to 3,600; 300 if it is absent.',
      300,
    ],

    'SshCertificate.certificate': [
      'The line of a `-cert.pub` file.',
      'ssh-ed25519-cert-v01@openssh.com AAAAIHNzaC1lZDI1NTE5LWNlcnQtdjAxExample ada',
    ],
    serial: [
      'A random number of 63 bits as text, because JSON numbers cannot hold it.',
      '4611686018427387904',
    ],
    key_id: [
      'Who and what, as the server’s log of sshd shows it.',
      'user=4;env=101;server=3;jti=4611686018427387904',
    ],
    principals: ['The names that the server’s sshd accepts it for.', ['berth:server:3:shell']],
    grant: ['What the holder may do.'],
    'grant.environment_id': ['The only environment; null: the whole server.', 101],
    'grant.can': ['The commands that the server performs for it.', ['shell', 'exec']],
    'SshCertificate.extensions': [
      'The extensions in the certificate.',
      ['grant@berth.dev', 'permit-pty'],
    ],
    valid_after: [
      'Valid from then on; a minute early, for servers whose clock is late.',
      '2026-11-15T09:11:31Z',
    ],
    valid_before: ['No new session begins after this.', '2026-11-15T09:17:31Z'],
    'SshCertificate.server': ['The server it is for.'],
    'SshCertificate.host': ['The host name or address to connect to.', 'fra-1.example.com'],
    'SshCertificate.port': ['The TCP port to connect to.', 22],
    'SshCertificate.user': ['The account to connect as.', 'berth-shell'],
    'SshCertificate.host_alias': [
      'The name in the server’s host certificate; give it to ssh as `HostKeyAlias`.',
      'server-3.berth.internal',
    ],
    'SshCertificate.host_ca': ['Keys to trust for that alias, as `@cert-authority`.', [HOST_KEY]],

    'IssuedSshCertificate.status': [
      '`unsigned`: signing failed, so it was never given out.',
      'active',
    ],
    'IssuedSshCertificate.holder': ['Who it was issued to.'],
    'IssuedSshCertificate.user': ['The account on the server.', 'berth-shell'],
    'IssuedSshCertificate.key_type': ['The kind of the signed key.', 'ssh-ed25519'],
    'IssuedSshCertificate.address': ['Where the request came from.', '203.0.113.7'],
    'IssuedSshCertificate.issued_at': ['When it was issued.', '2026-11-15T09:12:31Z'],
    'IssuedSshCertificate.session_until': [
      'Sessions that began with it end by then.',
      '2026-11-15T17:12:31Z',
    ],
    'IssuedSshCertificate.revoked_at': ['When it was revoked; null: it was not.', null],
    'IssuedSshCertificate.revoked_by': ['Who revoked it; null: no person did.', null],
    'IssuedSshCertificate.revoke_reason': [
      'Why access ended: `revoked`, `member_removed`, `environment_moved` …; null: it did not.',
      null,
    ],

    'listSshSessions.everyone': [
      '`true` lists those of everyone, in the organizations whose audit log you may read.',
      'true',
    ],
    'LiveSshAccess.server': ['The server that the certificate is for.'],
    'LiveSshAccess.environment': [
      'The identifier of its environment; null: the whole server.',
      'pr-42',
    ],
    'LiveSshAccess.sessions': [
      'Sessions that are open now, as the agent reported them; empty: none.',
    ],
    'sessions.verb': ['What the session does, and where.', 'forward db:5432'],
    'sessions.started_at': ['When it began, by the server’s clock.', '2026-11-15T09:12:40Z'],

    'SshHostAuthority.public_key': ['One line for a `known_hosts` file.', HOST_KEY],
    'SshAuthority.id': ['Counts the authorities of the installation.', 2],
    'SshAuthority.kind': [
      '`user`: signs certificates of people. `host`: signs those of servers.',
      'user',
    ],
    'SshAuthority.phase': [
      '`announced`: published, does not sign yet. `retiring`: published, no longer signs.',
      'signing',
    ],
    'SshAuthority.signing_at': ['Since when it signs; null: not yet.', '2026-10-01T08:00:00Z'],
    'SshAuthority.retiring_at': [
      'Since when it no longer signs; null: it still does, or not yet.',
      null,
    ],
    'SshAuthority.waits_for': [
      'Servers that block the next step: they have not confirmed it, or still use a certificate of it.',
      [],
    ],
    'waits_for.id': ['The server that is waited for.', 3],
    'waits_for.name': ['The name of that server, for `without`.', 'fra-1'],
    without: ['Names of servers that need not confirm first.', ['fra-2']],
    force: ['True waits for no server, for a key that may be in the wrong hands.', false],
  },
}
