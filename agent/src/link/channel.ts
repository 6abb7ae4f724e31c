// The connection to the control plane: mutual TLS 1.3; the agents' CA proves the server under one fixed name,
// regardless of the dialed address. A connection belongs to one session and shares nothing with the previous one, so a
// half-open socket is never reused.
import { createSecureContext } from 'node:tls'
import { SESSION } from '@berth/shared'
import { AgentService, createClient } from '@berth/shared/wire'
import { type ClientOptions, connectivityState, credentials } from '@grpc/grpc-js'
import type { Identity } from './identity/identity.ts'
import type { AgentClient } from './identity/renewal.ts'

/** Every certificate of the agents' listener contains this name beside its addresses. */
export const CONTROL_PLANE_NAME = 'berth-control-plane'

const OPTIONS: ClientOptions = {
  'grpc.ssl_target_name_override': CONTROL_PLANE_NAME,
  'grpc.default_authority': CONTROL_PLANE_NAME,
  'grpc.keepalive_time_ms': SESSION.keepaliveMs,
  'grpc.keepalive_timeout_ms': SESSION.keepaliveTimeoutMs,
  'grpc.keepalive_permit_without_calls': 1,
  'grpc.enable_retries': 0,
  // real back-pressure: otherwise write callbacks fire immediately, up to 1 MiB
  'grpc.per_rpc_retry_buffer_size': 0,
  'grpc.initial_reconnect_backoff_ms': 1_000,
  'grpc.max_reconnect_backoff_ms': 30_000,
  'grpc.service_config_disable_resolution': 1,
  'grpc.max_receive_message_length': SESSION.receiveBytes,
  'grpc.max_send_message_length': SESSION.receiveBytes,
  'grpc-node.flow_control_window': SESSION.streamWindowBytes,
  'grpc.use_local_subchannel_pool': 1,
}

export const isLoopback = (endpoint: string): boolean => /^(localhost|127\.|\[::1\])/.test(endpoint)

export function openChannel(identity: Identity, endpoint: string): AgentClient {
  const context = createSecureContext({
    ca: identity.ca,
    key: identity.key,
    cert: identity.certificate,
    minVersion: 'TLSv1.3',
  })
  return createClient(AgentService, endpoint, credentials.createFromSecureContext(context), {
    ...OPTIONS,
    ...(isLoopback(endpoint) ? { 'grpc.enable_http_proxy': 0 } : {}),
  })
}

/** Calls back once when the connection is open; calls report failures. Returns a function that stops waiting. */
export function onReady(client: AgentClient, ready: () => void): () => void {
  const channel = client.getChannel()
  let stopped = false
  const look = (): void => {
    if (stopped) return
    const state = channel.getConnectivityState(true)
    if (state === connectivityState.READY) {
      ready()
      return
    }
    if (state === connectivityState.SHUTDOWN) return
    channel.watchConnectivityState(state, Date.now() + SESSION.dialMs, (error) => {
      if (!error) look()
    })
  }
  look()
  return () => {
    stopped = true
  }
}

/** A message for users in place of a library's text about a failed connection. */
export function explainFailure(text: string, endpoint: string): string {
  const at = `(${endpoint})`
  if (/certificate has expired|certificate expired/i.test(text)) {
    return `a certificate has expired, or this server's clock is wrong ${at}`
  }
  if (/unable to verify|self.signed|unknown ca|issuer/i.test(text)) {
    return `the other side is not signed by this installation's authority ${at}`
  }
  if (/altnames|Hostname\/IP/i.test(text)) {
    return `the other side is not a Berth control plane: its certificate lacks the name ${CONTROL_PLANE_NAME} ${at}`
  }
  if (/certificate required|bad certificate|certificate unknown|alert/i.test(text)) {
    return `the control plane refused this agent's certificate ${at}: ${text}`
  }
  if (/ECONNREFUSED/.test(text)) return `nothing listens there ${at}`
  if (/ENOTFOUND|Name resolution failed/.test(text)) return `the name cannot be resolved ${at}`
  return `${text} ${at}`
}
