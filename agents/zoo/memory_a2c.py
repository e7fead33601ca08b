"""Hyperparameters of MemoryA2C, as rl_zoo3's --conf-file takes them."""

hyperparams = {
    "default": dict(policy="MlpPolicy", n_timesteps=1_000_000, n_envs=8),
    "CartPoleNoVel-v1": dict(
        policy="MlpPolicy", n_timesteps=100_000, n_envs=8, normalize=True, policy_kwargs=dict(core="gru")
    ),
}
