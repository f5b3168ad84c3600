use relax::{CompileOptions, Module, Tensor, Value};

fn main() -> Result<(), relax::Error> {
    let mut module = Module::parse(
        "def @main(%x: Tensor[(n, 3), float32], %w: Tensor[(2, 3), float32]) {
           nn.relu(nn.dense(%x, %w, units=2))
         }",
    )?;
    module.optimise("O2")?;
    let program = module.compile(&CompileOptions::default())?;
    let x = Tensor::from_slice(&[2, 3], &[1f32, 2.0, 3.0, -1.0, 0.0, 1.0]);
    let w = Tensor::from_slice(&[2, 3], &[1f32, 0.0, 0.0, 0.0, 1.0, -1.0]);
    match &program.call(&[Value::Tensor(x), Value::Tensor(w)])? {
        Value::Tensor(y) => println!("{:?} {:?}", y.shape(), y.slice::<f32>()),
        other => println!("{other:?}"),
    }
    Ok(())
}
