// Sign-in: the provider, a passkey, or e-mail and password, then the second factor. Paste and password managers work;
// the error does not say which of e-mail and password is wrong.
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import { api, queryClient, trpc } from '../../api.ts'
import { hasPasskeys } from '../../passkey-support.ts'
import { ActButton } from '../act.tsx'
import { Skeleton } from '../states.tsx'
import { Text } from './field.tsx'
import { Form, text } from './form.tsx'
import type { Awaiting } from './second-step.tsx'
import css from './sign-in-form.module.css'

const secondStep = () => import('./second-step.tsx')
const SecondStep = lazy(async () => ({ default: (await secondStep()).SecondStep }))

interface SignInFormProps {
  email?: string
  /** Where the provider sends the browser afterwards. */
  next?: string
  onDone(): void
  /** The second step has begun or ended, for a heading around the form. */
  onStep?(isSecond: boolean): void
}

export function SignInForm({ email, next, onDone, onStep }: SignInFormProps) {
  const session = useQuery({ ...trpc.session.get.queryOptions(), staleTime: 0 })
  const [isBack, goBack] = useState(false)
  const [begun, begin] = useState<Awaiting>()
  const awaiting = isBack ? undefined : (begun ?? session.data?.awaiting ?? undefined)
  const provider = session.data?.provider
  if (awaiting) {
    return (
      <Suspense fallback={<Skeleton />}>
        <SecondStep
          awaiting={awaiting}
          onDone={onDone}
          onBack={() => {
            goBack(true)
            begin(undefined)
            onStep?.(false)
            void api.session.signOut.mutate().then(() => queryClient.invalidateQueries())
          }}
        />
      </Suspense>
    )
  }
  const password = (
    <Form
      label="Sign in"
      submit="Sign in"
      kind={provider?.passwords === 'administrators' ? 'plain' : 'main'}
      send={async (data) => {
        await api.session.signIn.mutate({
          email: text(data, 'email'),
          password: text(data, 'password'),
        })
        const now = await api.session.get.query()
        if (!now.awaiting) return onDone()
        goBack(false)
        begin(now.awaiting)
        onStep?.(true)
      }}
    >
      <Text
        label="E-mail"
        name="email"
        type="email"
        autoComplete="username webauthn"
        defaultValue={email}
        required
      />
      <Text
        label="Password"
        name="password"
        type="password"
        autoComplete="current-password"
        required
      />
    </Form>
  )
  const isProviderFirst = provider?.passwords === 'administrators'
  const hasPasskey = session.data?.passkeys === true && hasPasskeys()
  const others = (provider || hasPasskey) && (
    <div className={css.ways}>
      {provider && (
        <ActButton
          kind={isProviderFirst ? 'main' : 'plain'}
          act={async () => {
            const path = next ?? `${location.pathname}${location.search}`
            const { url } = await api.session.beginProvider.mutate({ next: path })
            location.assign(url)
          }}
        >
          Continue with {provider.name}
        </ActButton>
      )}
      {hasPasskey && (
        <ActButton
          act={async () => {
            await (await secondStep()).signInWithPasskey()
            onDone()
          }}
        >
          Sign in with a passkey
        </ActButton>
      )}
    </div>
  )
  if (!isProviderFirst) {
    return (
      <>
        {password}
        {others && <div className={css.or}>or</div>}
        {others}
      </>
    )
  }
  return (
    <>
      {others}
      <details>
        <summary>Administrators can use a password</summary>
        {password}
      </details>
    </>
  )
}
