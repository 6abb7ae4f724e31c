// Pages without login: sign-in, first set-up, invitation, forgotten password. They do not reveal whether an account
// exists.
import { useQuery } from '@tanstack/react-query'
import { Link, useParams, useRouter, useSearch } from '@tanstack/react-router'
import { type ReactNode, useEffect, useState } from 'react'
import { api, problemOf, queryClient, trpc } from '../../api.ts'
import { ActButton } from '../../components/act.tsx'
import { Text } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { SignInForm } from '../../components/forms/sign-in-form.tsx'
import { Icon } from '../../components/icon.tsx'
import { useTitle } from '../../components/page.tsx'
import { Redirect } from '../../components/redirect.tsx'
import { ErrorState, Loaded, Note, Skeleton } from '../../components/states.tsx'
import { Moment } from '../../components/time.tsx'
import { Toasts } from '../../components/toast.tsx'
import { chooseOrganization } from '../../organization.ts'
import css from './people.module.css'

const PASSWORD_HINT = 'At least 10 characters.'

function Frame({ title, children }: { title: string; children: ReactNode }) {
  useTitle(title)
  return (
    <main className={css.frame}>
      <div className={css.brand}>
        <span className={css.mark}>
          <Icon name="anchor" size={20} />
        </span>
        Berth
      </div>
      <div className={css.card}>
        <h1>{title}</h1>
        {children}
      </div>
      <Toasts />
    </main>
  )
}

const useSession = () => useQuery({ ...trpc.session.get.queryOptions(), staleTime: 0 })

/** Accepts only our own paths, so that a crafted link cannot redirect users elsewhere after sign-in. */
const ownPath = (next: string | undefined): string =>
  next && /^\/(?![/\\])/.test(next) ? next : '/'

export function Login() {
  const session = useSession()
  const { next, error } = useSearch({ strict: false }) as { next?: string; error?: string }
  const go = useEnter()
  const [isSecond, setSecond] = useState(false)
  if (session.data?.setup_required) return <Redirect to="/setup" />
  if (session.data?.user) return <Redirect to={ownPath(next)} />
  if (!session.data && !session.isError) {
    return (
      <Frame title="Sign in">
        <Skeleton />
      </Frame>
    )
  }
  const isAwaiting = isSecond || (session.data?.awaiting ?? null) !== null
  return (
    <Frame title={isAwaiting ? 'Two-factor sign-in' : 'Sign in'}>
      {error && !isAwaiting && (
        <Note kind="bad">{refusalWords(error, session.data?.provider?.name)}</Note>
      )}
      <SignInForm next={ownPath(next)} onDone={() => go(ownPath(next))} onStep={setSecond} />
      {!isAwaiting && session.data?.provider?.passwords !== 'administrators' && (
        <p>
          <Link to="/reset">Forgot your password?</Link>
        </p>
      )}
    </Frame>
  )
}

/** Why the provider's sign-in did not succeed; the address holds only a word. */
function refusalWords(error: string, provider = 'The provider'): string {
  const words: Record<string, string> = {
    no_email: `${provider} sent no e-mail address. Ask an administrator to allow it.`,
    not_verified: `${provider} has not verified your e-mail address. Verify it there, then sign in again.`,
    domain: 'Your e-mail domain may not sign in here. Ask an administrator.',
    no_account: 'You have no account here. Ask an administrator for an invitation.',
    disabled: 'Your account is disabled. Ask an administrator.',
    access_denied: `You cancelled the sign-in at ${provider}.`,
    state_mismatch: 'The sign-in took too long. Try again.',
  }
  return words[error] ?? `Signing in with ${provider} failed. Try again.`
}

/** Clears what was loaded for another user, or without login. */
function useEnter() {
  const { history } = useRouter()
  return (to: string) => {
    queryClient.clear()
    history.replace(to)
  }
}

export function Forgot() {
  const [said, setSaid] = useState('')
  return (
    <Frame title="Reset your password">
      {said ? (
        <Note kind="ok">{said}</Note>
      ) : (
        <Form
          submit="Send reset link"
          send={async (data) => {
            const answer = await api.session.requestReset.mutate({ email: text(data, 'email') })
            setSaid(answer.message)
          }}
        >
          <Text label="E-mail" name="email" type="email" autoComplete="username" required />
        </Form>
      )}
      <p>
        <Link to="/login">Back to sign in</Link>
      </p>
    </Frame>
  )
}

export function Reset() {
  const { token = '' } = useParams({ strict: false }) as { token?: string }
  const [isDone, setDone] = useState(false)
  return (
    <Frame title="Choose a new password">
      {isDone ? (
        <>
          <Note kind="ok">Password changed. Sign in again in every browser.</Note>
          <p>
            <Link to="/login">Sign in</Link>
          </p>
        </>
      ) : (
        <Form
          submit="Change password"
          clears
          send={async (data) => {
            await api.session.reset.mutate({ token, password: text(data, 'password') })
            setDone(true)
          }}
        >
          <Text
            label="New password"
            name="password"
            type="password"
            autoComplete="new-password"
            hint={PASSWORD_HINT}
            minLength={10}
            required
          />
        </Form>
      )}
    </Frame>
  )
}

export function Setup() {
  const session = useSession()
  const go = useEnter()
  if (session.data && !session.data.setup_required) return <Redirect to="/" />
  return (
    <Frame title="Set up Berth">
      <p>Enter the set-up token. The control plane prints it when it starts.</p>
      <Form
        submit="Set up"
        send={async (data) => {
          const made = await api.session.setUp.mutate({
            token: text(data, 'token').trim(),
            name: text(data, 'name'),
            email: text(data, 'email'),
            organization: text(data, 'organization'),
            password: text(data, 'password'),
          })
          chooseOrganization(made.organization.id)
          go('/')
        }}
      >
        <Text
          label="Set-up token"
          name="token"
          placeholder="berth_setup_…"
          defaultValue={/^#(berth_setup_\w+)$/.exec(window.location.hash)?.[1]}
          autoComplete="off"
          spellCheck={false}
          required
        />
        <Text label="Your name" name="name" autoComplete="name" required />
        <Text label="E-mail" name="email" type="email" autoComplete="username" required />
        <Text
          label="Password"
          name="password"
          type="password"
          autoComplete="new-password"
          hint={PASSWORD_HINT}
          minLength={10}
          required
        />
        <Text
          label="Organization"
          name="organization"
          hint="Projects, servers and members belong to it. You can add more later."
          autoComplete="organization"
          required
        />
      </Form>
    </Frame>
  )
}

type Offer = Awaited<ReturnType<typeof api.invitation.describe.mutate>>

export function Invite() {
  const { token = '' } = useParams({ strict: false }) as { token?: string }
  const session = useSession()
  const [offer, setOffer] = useState<Offer>()
  const [error, setError] = useState<unknown>()
  const [tries, again] = useState(0)
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new try is a new question
  useEffect(() => {
    setError(undefined)
    api.invitation.describe.mutate({ token }).then(setOffer, setError)
  }, [token, tries])
  if (error) {
    const { status } = problemOf(error)
    return (
      <Frame title="Invitation">
        {status !== undefined && status < 500 ? (
          <Note kind="bad">{problemOf(error).message}</Note>
        ) : (
          <ErrorState what="The invitation" error={error} again={() => again(tries + 1)} />
        )}
      </Frame>
    )
  }
  if (!offer) {
    return (
      <Frame title="Invitation">
        <Skeleton />
      </Frame>
    )
  }
  return (
    <Frame title={`Join ${offer.organization.name}`}>
      <p>
        {offer.invited_by} invited {offer.email} as {offer.role}. Expires{' '}
        <Moment at={offer.expires_at} />.
      </p>
      <Loaded query={session} what="Your session">
        {(now) =>
          now.user?.email === offer.email ? (
            <Accept token={token} offer={offer} />
          ) : offer.account_exists ? (
            <SignInToAccept email={offer.email} isOther={now.user !== null} />
          ) : (
            <Register token={token} offer={offer} />
          )
        }
      </Loaded>
    </Frame>
  )
}

function Accept({ token, offer }: { token: string; offer: Offer }) {
  const go = useEnter()
  return (
    <Form
      submit="Accept invitation"
      send={async () => {
        await api.invitation.accept.mutate({ token })
        chooseOrganization(offer.organization.id)
        go('/')
      }}
    />
  )
}

function SignInToAccept({ email, isOther }: { email: string; isOther: boolean }) {
  return (
    <>
      <Note>
        {isOther
          ? `You're signed in with another account. Sign in as ${email} to accept.`
          : `Sign in as ${email} to accept.`}
      </Note>
      <SignInForm email={email} onDone={() => void queryClient.invalidateQueries()} />
    </>
  )
}

function Register({ token, offer }: { token: string; offer: Offer }) {
  const go = useEnter()
  const provider = useSession().data?.provider
  const byProvider = provider && (
    <ActButton
      kind={provider.passwords === 'administrators' ? 'main' : 'plain'}
      act={async () => {
        const { url } = await api.session.beginProvider.mutate({ next: location.pathname })
        location.assign(url)
      }}
    >
      Continue with {provider.name}
    </ActButton>
  )
  if (provider?.passwords === 'administrators') return byProvider
  return (
    <>
      {byProvider}
      <Form
        submit="Create account"
        send={async (data) => {
          const password = text(data, 'password')
          await api.invitation.register.mutate({ token, name: text(data, 'name'), password })
          await api.session.signIn.mutate({ email: offer.email, password })
          chooseOrganization(offer.organization.id)
          go('/')
        }}
      >
        <Text label="Your name" name="name" autoComplete="name" required />
        <Text
          label="Password"
          name="password"
          type="password"
          autoComplete="new-password"
          hint={PASSWORD_HINT}
          minLength={10}
          required
        />
      </Form>
    </>
  )
}
