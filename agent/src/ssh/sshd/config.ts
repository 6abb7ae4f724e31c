// Renders the configuration that Berth adds to sshd. The user authority is trusted inside two Match blocks only, so a
// stolen key of it opens neither root nor other accounts; ForceCommand fixes what runs. PURE.
import { SSH_ACCOUNTS, type SshAccount } from '@berth/shared'
import type { AgentSettings } from '../../settings.ts'
import { relayAccount, sshPaths } from '../paths.ts'

type Settings = Pick<AgentSettings, 'accountPrefix' | 'runDir' | 'stateDir' | 'ssh'>

/** `exec` makes sshd's process of the connection the parent, so that its end is noticed. */
const forcedCommand = ({ ssh }: Settings, role: SshAccount): string =>
  `exec ${ssh.launcher} ${role}`

function block(settings: Settings, role: SshAccount): string {
  const account = relayAccount(settings, role)
  const paths = sshPaths(settings)
  return `Match User ${account}
    AllowUsers ${account}
    TrustedUserCAKeys ${paths.authorities}
    AuthorizedPrincipalsFile ${paths.principals}/%u
    AuthorizedKeysFile none
    RevokedKeys ${paths.revoked}
    AuthenticationMethods publickey
    PubkeyAcceptedAlgorithms *-cert-v01@openssh.com
    ExposeAuthInfo yes
    ForceCommand ${forcedCommand(settings, role)}
    DisableForwarding yes
    PermitTTY ${role === 'berth-shell' ? 'yes' : 'no'}
    PermitUserRC no
`
}

const blocks = (settings: Settings): string =>
  SSH_ACCOUNTS.map((role) => block(settings, role)).join('')

const HEAD =
  '# Written by berth-agent. Changes here are replaced; `berth-agent ssh remove` takes it away.\n'

export const renderDropIn = (settings: Settings): string => `${HEAD}${blocks(settings)}Match all\n`

/** In a separate file, so that the blocks do not depend on it. */
export const renderHostDropIn = (settings: Settings): string =>
  `${HEAD}HostCertificate ${sshPaths(settings).hostCertificate}\n`

/** Our own sshd on its own port; it reads nothing of the owner's sshd. */
export function renderOwnConfig(settings: Settings, hasCertificate: boolean): string {
  const paths = sshPaths(settings)
  const { address, port } = settings.ssh.own
  const accounts = SSH_ACCOUNTS.map((role) => relayAccount(settings, role)).join(' ')
  return `${HEAD}Port ${port}
ListenAddress ${address}
PidFile ${paths.ownPidFile}
HostKey ${paths.ownHostKey}
${hasCertificate ? `HostCertificate ${paths.hostCertificate}\n` : ''}AllowUsers ${accounts}
AuthenticationMethods publickey
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin no
UsePAM no
PermitUserEnvironment no
PrintMotd no
PrintLastLog no
LoginGraceTime 20
MaxAuthTries 3
MaxStartups 20:50:60
ClientAliveInterval 15
ClientAliveCountMax 3
LogLevel VERBOSE
Subsystem sftp internal-sftp
${blocks(settings)}`
}

/** What must be in effect for our accounts, as `sshd -T` prints it. */
export function expectedEffect(settings: Settings, role: SshAccount): string[] {
  const paths = sshPaths(settings)
  return [
    `trustedusercakeys ${paths.authorities}`,
    `authorizedprincipalsfile ${paths.principals}/%u`,
    `revokedkeys ${paths.revoked}`,
    `forcecommand ${forcedCommand(settings, role)}`,
    'authorizedkeysfile none',
    'authenticationmethods publickey',
    'exposeauthinfo yes',
    'disableforwarding yes',
    `permittty ${role === 'berth-shell' ? 'yes' : 'no'}`,
    'permituserrc no',
  ]
}
