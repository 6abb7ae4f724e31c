// Servers, their agents, and updates of agents.
import type { Glossary } from './entries.ts'

const CERTIFICATE = '-----BEGIN CERTIFICATE-----\n…\n-----END CERTIFICATE-----\n'
const CSR = '-----BEGIN CERTIFICATE REQUEST-----\n…\n-----END CERTIFICATE REQUEST-----\n'

export const SERVERS: Glossary = {
  operations: {
    listServers: {
      title: 'List servers',
      says: 'Lists the servers of your organizations and those that other organizations share with them, all on one page. Of a shared one only name, address, state and recipes are shown.',
    },
    createServer: {
      title: 'Create a server',
      says: 'Registers a server; it is `pending` until its agent joins. Create a join token next and run the printed command on the machine.',
      answer: {
        status: 'pending',
        agent_version: null,
        last_seen_at: null,
        joined_at: null,
        recipes: [],
        facts: null,
        parts: [],
        environment_count: 0,
        default_limits: null,
        default_settings: null,
        usage: null,
        trust: null,
      },
    },
    getServer: {
      title: 'Read a server',
      says: 'Answers one server: the state of its agent, what its machine has and uses, its limits and settings.',
    },
    updateServer: {
      title: 'Change a server',
      says: 'Changes the given settings; absent fields stay as they are. `paused` stops new tasks at once, limits apply with the next deployment of each environment.',
      body: { paused: true, limits: { memory_bytes: 2_147_483_648 } },
      answer: {
        paused: true,
        paused_by: { id: 4, name: 'Ada Lovelace' },
        paused_at: '2026-11-15T09:12:31Z',
      },
    },
    deleteServer: {
      title: 'Remove a server',
      says: 'Removes a server that holds no environments, and ends its agent and its SSH access at once. What runs on the machine besides Berth is not touched.',
    },
    getServerUsage: {
      title: 'Read the use of a server',
      says: 'Answers the history of processor, memory and disk, and what each environment uses now. Points are averages; minutes without a report are missing.',
    },
    createServerShare: {
      says: 'Lets another organization place environments on the server. It sees the name, address and state, and nothing of other organizations. At most 50 organizations.',
      body: { organization: 'difference' },
    },
    deleteServerShare: {
      says: 'Ends the sharing, and the organization’s SSH access there. Refused while it has environments on the server (409 `server_in_use`).',
    },
    postServerJoinToken: {
      title: 'Create a join token',
      says: 'Creates a token for `berth-agent join`, valid once, for 15 minutes, for this server; former unused ones become invalid. For a server that has an agent, `rejoin` must be true.',
      body: { rejoin: false },
    },
    deleteServerJoinToken: {
      title: 'Withdraw join tokens',
      says: 'Makes the unused join tokens of this server invalid. An agent that has joined stays.',
    },
    postServerRevokeAgent: {
      title: 'Revoke an agent',
      says: 'Ends the agent’s session and certificate within seconds, for a stolen or copied machine. Environments keep running there but cannot be managed until an agent joins again.',
      answer: { status: 'revoked' },
    },
    getAgentUpdates: {
      says: 'Answers which agent version this control plane offers, whether agents can be upgraded from here, and the last rollouts that you may see.',
    },
    createAgentUpdate: {
      says: 'Upgrades every outdated agent in three waves: one server, a tenth of them, all. The first failure stops the rollout; that server goes back to its former version.',
      also: 'The scope `installation` of the body needs a platform administrator.',
      answer: { state: 'running', wave: 1, finished_at: null },
    },
    postServerUpgrade: {
      says: 'Upgrades the agent of one server, as a rollout of its own. Running deployments continue. 409 `agent_not_upgradable` says what to do by hand.',
      answer: { state: 'running', wave: 1, finished_at: null },
    },
    postAgentEnroll: {
      says: 'For agents: exchanges a join token and a certificate request for an identity. The same request can be repeated for ten minutes if the answer was lost.',
      also: 'The join token is the proof.',
    },
    postAgentRenewChallenge: {
      says: 'For agents: answers a nonce, valid once, that proves the possession of an expired certificate’s key.',
      also: 'The certificate is the proof.',
    },
    postAgentRenew: {
      says: 'For agents that were away for long: a new certificate in place of an expired one. Connected agents renew over their session.',
      also: 'The signature with the old key is the proof.',
    },
    postAgentLeave: {
      says: 'For agents: reports that Berth was uninstalled from the server, which is then `uninstalled`.',
      also: 'The signature with the agent’s key is the proof.',
    },
  },
  fields: {
    'deleteServer.confirm': ['Repeats the server’s name.', 'fra-1'],
    '?span': [
      '`hour` and `day`: one point per minute; `month`: one per hour. `day` if it is absent.',
      'day',
    ],
    'deleteServerShare.id': ['The server, by the `id` that `GET /api/servers` lists.', 3],
    '{organization_id}': ['The organization that it is shared with.', 9],

    'ServerRef.id': ['Names it in paths.', 3],
    'ServerRef.name': ['The server name, unique in its organization.', 'fra-1'],
    'ServerRef.hostname': [
      'The host name or IP address that people and clients reach it at.',
      'fra-1.example.com',
    ],
    'Server.organization_id': ['The organization that owns it.', 7],
    'Server.status': [
      '`pending`: no agent joined yet. `unknown`: just after a start of the control plane. `draining`: its agent is stopping. `duplicate_identity`: two machines use one identity.',
      'online',
    ],
    'Server.paused': ['It takes no new tasks; running ones continue, and services stay up.', false],
    'Server.paused_by': [
      'Who paused it; null: it is not paused, or it belongs to another organization.',
      null,
    ],
    'Server.paused_at': ['When it was paused; null: it is not.', null],
    'Server.agent_version': ['The version of its agent; null: it has none.', '1.15.0'],
    'Server.agent_outdated': ['The agent is older than this control plane.', false],
    'Server.update': ['The last upgrade of its agent from here; null: none.', null],
    'Server.last_seen_at': ['When the agent last reported; null: never.', '2026-11-15T09:14:00Z'],
    'Server.joined_at': ['When the agent joined; null: it has none.', '2026-10-01T08:00:00Z'],
    'Server.ssh_port': [
      'The port for SSH that an administrator set; 22: the agent’s own choice counts.',
      22,
    ],
    'Server.ssh': ['How people connect, as the agent set it up.'],
    'ssh.state': [
      '`off`: no person can connect. `unknown`: the agent has not reported it yet.',
      'ready',
    ],
    'ssh.port': ['The TCP port to connect to.', 22],
    'ssh.reason': [
      'Why people cannot connect, or why not at the usual port; null otherwise.',
      null,
    ],
    'Server.shell_enabled': ['Whether administrators can get a shell on the whole server.', false],
    'Server.recipes': ['What it can deploy now.', ['docker', 'manual']],
    'Server.facts': ['What its machine is; null: not reported yet.'],
    'facts.os': ['The operating system and its version.', 'Debian GNU/Linux 13'],
    'facts.arch': ['The kind of processor.', 'x64'],
    'facts.cpus': ['Processors that the machine has.', 4],
    'facts.memory_bytes': ['Memory of the machine in bytes.', 8_589_934_592],
    'facts.disk_bytes': ['The size of the disk in bytes.', 107_374_182_400],
    'facts.disk_free_bytes': ['Free bytes on the disk.', 64_424_509_440],
    'facts.docker_version': ['The version of the Docker engine; null: it has none.', '28.5.1'],
    'Server.parts': ['What the agent found on the machine, and what is missing.'],
    'Server.parts.name': ['The part: `docker`, `git`, `caddy`, `sshd` and others.', 'docker'],
    'Server.parts.version': ['Its version; null: not found.', '28.5.1'],
    'Server.parts.reason': ['Why it cannot be used, and what to do; null: it can.', null],
    'Server.limits': ['The most that one environment may use on it.'],
    'Server.default_limits': [
      'What applies where `limits` is null; null: its size is not known yet.',
    ],
    'Server.settings': ['What builds may use, and how many tasks run together.'],
    'Server.default_settings': [
      'What applies where `settings` is null; null: its size is not known yet.',
    ],
    'Server.usage': ['Its last report, about once a minute; null: none yet.'],
    'Server.trust': [
      'Whether the newest SSH keys and revocations are in force on it; null: it has no agent.',
    ],
    'ServerTrust.state': [
      '`told`: it has not answered yet. `away`: not connected. `refused`: it could not apply them.',
      'confirmed',
    ],
    'ServerTrust.reason': ['Why it could not apply them, in its own words; null otherwise.', null],
    'Server.shared_by': [
      'The organization that owns it, if that is another one; then settings, load and parts are hidden. Null: it is your own.',
      null,
    ],
    'shared_by.id': ['The organization that owns it.', 7],
    'shared_by.name': ['What people call that organization.', 'Analytical Engines'],
    'Server.shared_with': ['Organizations that may place environments on it.', []],
    'shared_with.id': [
      'Names the organization in `DELETE /api/servers/{id}/shares/{organization_id}`.',
      9,
    ],
    'shared_with.name': ['What people call that organization.', 'Difference Works'],
    'shared_with.slug': ['The short name of that organization.', 'difference'],
    'ServerCreate.name': ['At most 64 characters, unique in the organization.', 'fra-1'],
    'ServerCreate.hostname': [
      'A host name or an IP address that people reach it at.',
      'fra-1.example.com',
    ],
    'ServerPatch.ssh_port': [
      'The port for SSH, 1 to 65,535; 22 leaves the choice to the agent.',
      22,
    ],
    'ServerPatch.settings': ['Absent fields stay as they are; null: the server’s size decides.'],
    'ServerPatch.limits': ['Absent fields stay as they are; null: the server’s size decides.'],
    'ServerShareCreate.organization': ['The slug or id of the organization.', 'difference'],

    build_memory_bytes: [
      'Memory of one build, or of the steps of one manual deployment; null: half of the server’s.',
      4_294_967_296,
    ],
    build_cpus: ['Processors of one build; null: all of the server’s.', 2],
    build_timeout_ms: [
      'Milliseconds that one build may take; null: 30 minutes, and no limit of its own for a manual step.',
      1_800_000,
    ],
    build_slots: ['Builds that run together; null: half of the processors, at least 1.', 2],
    task_slots: [
      'Actions, removals, and deployments outside of their build that run together; null: one per processor, at least 2.',
      4,
    ],

    'ServerUsage.at': ['When the agent measured it.', '2026-11-15T09:14:00Z'],
    cpu_percent: ['Percent of all processors together.', 12.5],
    load: ['The load of the last minute, as `uptime` shows it.', 0.42],
    memory_used_bytes: ['Used memory in bytes.', 3_221_225_472],
    'ServerUsage.memory_bytes': ['All memory in bytes.', 8_589_934_592],
    disk_used_bytes: ['Used bytes of the disk.', 42_949_672_960],
    'ServerUsage.disk_bytes': ['The size of the disk in bytes.', 107_374_182_400],
    docker_ok: ['Whether the Docker engine answers.', true],
    proxy_ok: ['Whether the proxy in front of the services answers.', true],
    latest: ['The last report; null: none yet.'],
    'ServerUsageHistory.environments': ['What each environment on it uses now.'],
    'environments.id': ['Names the environment in paths.', 101],
    'environments.identifier': ['As its project names it; unique there.', 'pr-42'],
    'environments.disk_bytes': [
      'Disk space in bytes, measured once an hour; 0: not yet.',
      524_288_000,
    ],
    'environments.memory_bytes': ['Memory that it uses now, in bytes.', 268_435_456],
    'environments.cpu_percent': ['Percent of one processor: 200 is two of them.', 3.5],
    'ServerUsageHistory.span': ['The span of the points.', 'day'],
    'ServerUsageHistory.points': ['Averages of a minute or an hour, oldest first.'],
    'points.at': ['The minute or hour of the point.', '2026-11-15T09:14:00Z'],

    'AgentUpdate.rollout_id': ['The rollout that it is part of.', 6],
    version: ['The version, without a `v`.', '1.15.0'],
    'AgentUpdate.state': [
      '`offered`: it is trying the new version. `kept`: it runs it. `failed`: it went back.',
      'kept',
    ],
    'AgentUpdate.reason': ['Why it failed or was skipped; null otherwise.', null],
    'AgentRollout.id': ['The number of the rollout; `rollout_id` of an update refers to it.', 6],
    'AgentRollout.organization_id': ['Whose servers; null: those of the whole installation.', 7],
    'AgentRollout.state': ['`failed`: the first failure stopped it.', 'done'],
    'AgentRollout.reason': ['The first failure; null: none.', null],
    'AgentRollout.wave': ['1: one server; 2: a tenth of them; 3: all.', 3],
    'AgentRollout.servers': ['How many servers are in which state.'],
    'servers.waiting': ['The new version was not offered to them yet.', 0],
    'servers.offered': ['They are trying the new version.', 0],
    'servers.kept': ['They run the new version.', 5],
    'servers.failed': ['They went back to the former version.', 0],
    'servers.skipped': ['They were left out, such as removed ones.', 0],
    'AgentUpdates.version': ['Of the agents that this control plane offers.', '1.15.0'],
    'AgentUpdates.reason': ['Why agents cannot be upgraded from here; null: they can.', null],
    'AgentUpdates.command': [
      'Upgrades one agent by hand, as root on its server; null: no agent is packaged here.',
      'curl -fsSLO https://deploy.example.com/install.sh && sh install.sh',
    ],
    'AgentUpdates.rollouts': ['The last rollouts, newest first.'],
    'AgentUpdatesStart.scope': [
      '`organization`: its own servers. `installation`: all, for platform administrators.',
      'organization',
    ],

    'JoinTokenRequest.rejoin': ['True replaces the agent that the server has.', false],
    'JoinToken.token': ['The join token, shown only in this answer.', 'berth_join_…'],
    'JoinToken.expires_at': [
      'It is refused from then on: after 15 minutes.',
      '2026-11-15T09:27:31Z',
    ],
    'JoinToken.command': [
      'Run it on the server as root; it checks the script before it runs it.',
      'curl -fsSLO https://deploy.example.com/install.sh && echo "…  install.sh" | sha256sum -c && echo berth_join_… | sh install.sh --token-file -',
    ],
    'EnrollRequest.token': [
      'The join token that the control plane created for this server.',
      'berth_join_…',
    ],
    csr: ['A certificate request for the agent’s own key, as PEM.', CSR],
    'EnrollRequest.install_id': [
      'A random id of this installation of the agent, to notice copies of its disk.',
      '7c9e6679-7425-40de-944b-e07fc1f90ae7',
    ],
    'EnrollRequest.host': ['What the machine says of itself, for the audit log.'],
    'host.hostname': ['Its own host name.', 'fra-1'],
    'host.os': ['Its operating system and version.', 'Debian GNU/Linux 13'],
    'host.arch': ['Its kind of processor.', 'x64'],
    'host.agent_version': ['The version of the agent.', '1.15.0'],
    'EnrollResponse.agent_id': [
      'The identity of this agent from now on.',
      '0b54c1e2-7d1f-4a0e-9a55-2f1c7e6d9b10',
    ],
    'EnrollResponse.server_id': ['The server that it is the agent of.', 3],
    'EnrollResponse.certificate': ['The agent’s client certificate, as PEM.', CERTIFICATE],
    'EnrollResponse.ca': [
      'Certificates that the control plane’s own must be signed by, as PEM.',
      [CERTIFICATE],
    ],
    'EnrollResponse.endpoints': ['Where the agent connects.', ['deploy.example.com:7443']],
    'EnrollResponse.generation': ['Counts the certificates of this identity, from 1.', 1],
    'EnrollResponse.renew_at': [
      'When the agent should ask for the next certificate.',
      '2026-12-05T09:12:31Z',
    ],
    'EnrollResponse.ssh_user_ca_keys': [
      'Keys that sign the SSH certificates of people.',
      ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIExampleExampleExampleExampleExampleExampl berth-user'],
    ],
    certificate: ['The agent’s last certificate, as PEM; it may have expired.', CERTIFICATE],
    nonce: ['Random text that is signed once.', 'pJ3kXw0q9Zt7'],
    'RenewChallengeResponse.expires_at': [
      'The nonce is refused from then on.',
      '2026-11-15T09:13:31Z',
    ],
    signature: [
      'With the key of the certificate, over the length-prefixed purpose, nonce and request; base64url.',
      'MEUCIQDexample',
    ],
    'LeaveResponse.server': ['The name of the server.', 'fra-1'],
    'LeaveResponse.environments': ['Environments that are still listed on it.', 0],
  },
}
